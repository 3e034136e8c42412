# SPDX-License-Identifier: Apache-2.0
"""Commands about the switch as a whole: programs, ports, hash functions, mirroring, queues and time."""

from __future__ import annotations

from pathlib import Path

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.engine.bmv2api.commands.errors import CommandError, unknown
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.engine.bmv2api.commands.registry import CommandScope, CommandWork, Say, between, command, exactly, whole
from detour.engine.bmv2api.interface import Api
from detour.engine.bmv2api.types import Crc16Config, Crc32Config, MirroringSessionConfig

_INT64 = (1 << 63) - 1

# -- programs and state


@command("load_new_config_file", "FILE", "load another program, which packets run after swap_configs", "file")
def load_new_config_file(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    try:
        text = Path(words[0]).read_text()
    except (OSError, UnicodeDecodeError):
        raise CommandError("Not a valid filename", words[0]) from None
    try:
        scope.program = ProgramNames(text)
    except DetourError as error:
        raise CommandError("Not a valid JSON file", str(error)) from None

    def work(api: Api, say: Say) -> None:
        say("Loading new Json config")
        api.standard.bm_load_new_config(text)

    return work


@command("swap_configs", "", "let packets run the program that was loaded")
def swap_configs(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)

    def work(api: Api, say: Say) -> None:
        say("Swapping configs")
        api.standard.bm_swap_configs()

    return work


@command("write_config_to_file", "FILE", "write the program's JSON to a file", "file")
def write_config_to_file(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    return lambda api, say: write_file(Path(words[0]), api.standard.bm_get_config().encode())


@command("serialize_state", "FILE", "write the switch's state to a file (BMv2 only)", "file")
def serialize_state(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    return lambda api, say: write_file(Path(words[0]), api.standard.bm_serialize_state())


@command("reset_state", "", "delete all entries and set counters and registers to 0")
def reset_state(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)
    return lambda api, say: api.standard.bm_reset_state()


@command("switch_info", "", "show the switch's device id and addresses")
def switch_info(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)

    def work(api: Api, say: Say) -> None:
        shown = vars(api.standard.bm_mgmt_get_info())
        width = 5 + max(len(name) for name in shown)
        for name, value in shown.items():
            say(f"{name:{width}}: {value}")

    return work


# -- ports


@command("port_add", "INTERFACE PORT [PCAP]", "attach a network interface to a port")
def port_add(words: list[str], scope: CommandScope) -> CommandWork:
    between(words, 2, 3)
    port, path = whole(words[1], "port_num", 0), words[2] if len(words) == 3 else ""
    return lambda api, say: api.standard.bm_dev_mgr_add_port(words[0], port, path)


@command("port_remove", "PORT", "take a port's interface away")
def port_remove(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    port = whole(words[0], "port_num", 0)
    return lambda api, say: api.standard.bm_dev_mgr_remove_port(port)


@command("show_ports", "", "show what ports are attached to")
def show_ports(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)

    def work(api: Api, say: Say) -> None:
        ports = api.standard.bm_dev_mgr_show_ports()
        say("{:^10}{:^20}{:^10}{}".format("port #", "iface name", "status", "extra info"))
        say("=" * 50)
        for port in ports:
            extra = "; ".join(f"{name}={value}" for name, value in port.extra.items())
            say(f"{port.port_num:^10}{port.iface_name:^20}{'UP' if port.is_up else 'DOWN':^10}{extra}")

    return work


# -- hash functions


def _crc(words: list[str], scope: CommandScope, width: int) -> tuple[str, list[int], tuple[bool, bool]]:
    exactly(words, 6)
    known = [name for name, bits in scope.program.custom_crcs.items() if bits == width]
    if words[0] not in known:
        raise unknown(f"crc{width}_custom", words[0], known)
    numbers = []
    for text in words[1:4]:
        try:
            found = int(text, 0)
        except ValueError:
            raise CommandError(f"Bad format for {text}, expected integer") from None
        if not 0 <= found < 1 << width:
            raise CommandError(f"Integer cannot fit within {width} bits", text)
        numbers.append(found - (1 << width) if found >> (width - 1) else found)
    return words[0], numbers, (_flag(words[4]), _flag(words[5]))


def _flag(text: str) -> bool:
    if text in ("true", "True", "false", "False"):
        return text in ("true", "True")
    try:
        return bool(int(text, 0))
    except ValueError:
        raise CommandError("Invalid bool parameter", f"{text} is not true or false") from None


_CRC_USAGE = "NAME POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER"


@command("set_crc16_parameters", _CRC_USAGE, "change a custom CRC of 16 bits", "crc16")
def set_crc16_parameters(words: list[str], scope: CommandScope) -> CommandWork:
    name, numbers, flags = _crc(words, scope, 16)
    return lambda api, say: api.standard.bm_set_crc16_custom_parameters(
        0, name, Crc16Config(numbers[0], numbers[1], numbers[2], *flags)
    )


@command("set_crc32_parameters", _CRC_USAGE, "change a custom CRC of 32 bits", "crc32")
def set_crc32_parameters(words: list[str], scope: CommandScope) -> CommandWork:
    name, numbers, flags = _crc(words, scope, 32)
    return lambda api, say: api.standard.bm_set_crc32_custom_parameters(
        0, name, Crc32Config(numbers[0], numbers[1], numbers[2], *flags)
    )


@command("set_toeplitz_hash_key", "NAME KEY", "set the key of a Toeplitz hash, in hexadecimal")
def set_toeplitz_hash_key(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    try:
        key = bytes.fromhex(words[1])
    except ValueError:
        raise CommandError("Toeplitz hash key must be a hex string", words[1]) from None
    if len(key) % 4:
        raise CommandError("Toeplitz hash key must be a multiple of 4 bytes in length", f"{len(key)} bytes")
    return lambda api, say: api.standard.bm_set_toeplitz_hash_key(0, words[0], key)


# -- mirroring


@command("mirroring_add", "SESSION PORT", "mirror a session to a port")
def mirroring_add(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    session, port = whole(words[0], "mirror_id", 0), whole(words[1], "egress_port", 0)
    return lambda api, say: api.target.mirroring_session_add(session, MirroringSessionConfig(port=port))


@command("mirroring_add_mc", "SESSION GROUP", "mirror a session to a multicast group")
def mirroring_add_mc(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    session, group = whole(words[0], "mirror_id", 0), whole(words[1], "mgrp", 0)
    return lambda api, say: api.target.mirroring_session_add(session, MirroringSessionConfig(mgid=group))


@command("mirroring_delete", "SESSION", "delete a mirroring session")
def mirroring_delete(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    session = whole(words[0], "mirror_id", 0)
    return lambda api, say: api.target.mirroring_session_delete(session)


@command("mirroring_get", "SESSION", "show a mirroring session")
def mirroring_get(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    session = whole(words[0], "mirror_id", 0)
    return lambda api, say: say(str(api.target.mirroring_session_get(session)))


# -- queues


@command("set_queue_depth", "PACKETS [PORT [PRIORITY]]", "set the depth of a queue, of a port's, or of all")
def set_queue_depth(words: list[str], scope: CommandScope) -> CommandWork:
    between(words, 1, 3)
    depth, *place = whole(words[0], "nb_pkts", 0), *_place(words)

    def work(api: Api, say: Say) -> None:
        match place:
            case [port, priority]:
                api.target.set_egress_priority_queue_depth(port, priority, depth)
            case [port]:
                api.target.set_egress_queue_depth(port, depth)
            case _:
                api.target.set_all_egress_queue_depths(depth)

    return work


@command("set_queue_rate", "PACKETS_PER_SECOND [PORT [PRIORITY]]", "set the rate of a queue, of a port's, or of all")
def set_queue_rate(words: list[str], scope: CommandScope) -> CommandWork:
    between(words, 1, 3)
    rate, *place = whole(words[0], "rate_pps", 0, _INT64), *_place(words)

    def work(api: Api, say: Say) -> None:
        match place:
            case [port, priority]:
                api.target.set_egress_priority_queue_rate(port, priority, rate)
            case [port]:
                api.target.set_egress_queue_rate(port, rate)
            case _:
                api.target.set_all_egress_queue_rates(rate)

    return work


def _place(words: list[str]) -> list[int]:
    names = ("egress_port", "priority")
    return [whole(text, name, 0) for text, name in zip(words[1:], names, strict=False)]


# -- time


@command("get_time_elapsed", "", "show the time since the switch started, in microseconds")
def get_time_elapsed(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)
    return lambda api, say: say(str(api.target.get_time_elapsed_us()))


@command("get_time_since_epoch", "", "show the time since the epoch of the switch's clock, in microseconds")
def get_time_since_epoch(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)
    return lambda api, say: say(str(api.target.get_time_since_epoch_us()))
