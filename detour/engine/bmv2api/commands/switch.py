# SPDX-License-Identifier: Apache-2.0
"""Commands about the switch as a whole: programs, ports, hash functions, mirroring, queues and time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.engine.bmv2api.commands.arguments import FILE_NAME, INT63, integer, parse_integer
from detour.engine.bmv2api.commands.errors import CommandError, unknown
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.engine.bmv2api.commands.registry import Argument, Parsed, calls, command
from detour.engine.bmv2api.interface import Api, SimpleSwitch, Standard
from detour.engine.bmv2api.types import Crc16Config, Crc32Config, MirroringSessionConfig
from detour.engine.bmv2api.wire import signed

# -- programs and state


def _parse_program(words: list[str], parsed: Parsed) -> str:
    """The text of a program, by which the commands after this one are parsed."""
    try:
        text = Path(words[0]).read_text()
    except (OSError, UnicodeDecodeError):
        raise CommandError("Not a valid filename", words[0]) from None
    try:
        parsed.scope.program = ProgramNames(text)
    except DetourError as error:
        raise CommandError("Not a valid JSON file", str(error)) from None
    return text


calls("load_new_config_file", "load another program, which packets run after swap_configs", Standard.bm_load_new_config,
      Argument("FILE", _parse_program), before="Loading new Json config")  # fmt: skip
calls("swap_configs", "let packets run the program that was loaded", Standard.bm_swap_configs,
      before="Swapping configs")  # fmt: skip


@command("write_config_to_file", "write the program's JSON to a file", FILE_NAME)
def write_config_to_file(api: Api, path: str) -> Iterable[str]:
    write_file(Path(path), api.standard.bm_get_config().encode())
    return ()


@command("serialize_state", "write the switch's state to a file (BMv2 only)", FILE_NAME)
def serialize_state(api: Api, path: str) -> Iterable[str]:
    write_file(Path(path), api.standard.bm_serialize_state())
    return ()


calls("reset_state", "delete all entries and set counters and registers to 0", Standard.bm_reset_state)


@command("switch_info", "show the switch's device id and addresses")
def switch_info(api: Api) -> Iterable[str]:
    info = vars(api.standard.bm_mgmt_get_info())
    width = 5 + max(len(name) for name in info)
    return [f"{name:{width}}: {value}" for name, value in info.items()]


# -- ports

_PORT = integer("PORT", "port_num")
_PCAP = Argument("[PCAP]", lambda words, parsed: words[0] if words else "", least=0)

calls("port_add", "attach a network interface to a port", Standard.bm_dev_mgr_add_port,
      Argument("INTERFACE", lambda words, parsed: words[0]), _PORT, _PCAP)  # fmt: skip
calls("port_remove", "take a port's interface away", Standard.bm_dev_mgr_remove_port, _PORT)


@command("show_ports", "show what ports are attached to")
def show_ports(api: Api) -> Iterable[str]:
    ports = api.standard.bm_dev_mgr_show_ports()
    yield "{:^10}{:^20}{:^10}{}".format("port #", "iface name", "status", "extra info")
    yield "=" * 50
    for port in ports:
        extra = "; ".join(f"{name}={value}" for name, value in port.extra.items())
        yield f"{port.port_num:^10}{port.iface_name:^20}{'UP' if port.is_up else 'DOWN':^10}{extra}"


# -- hash functions


def _crc(width: int) -> Argument:
    """The name of a custom CRC."""

    def names(program: ProgramNames, words: object = ()) -> list[str]:
        return [name for name, bits in program.custom_crcs.items() if bits == width]

    def parse(words: list[str], parsed: Parsed) -> str:
        customs = names(parsed.scope.program)
        if words[0] not in customs:
            raise unknown(f"crc{width}_custom", words[0], customs)
        return words[0]

    return Argument("NAME", parse, names=names)


def _crc_config(width: int, config: Callable[..., Crc16Config | Crc32Config]) -> Argument:
    def parse(words: list[str], parsed: Parsed) -> Crc16Config | Crc32Config:
        return config(*(_remainder(text, width) for text in words[:3]), *map(_flag, words[3:]))

    usage = "POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER"
    return Argument(usage, parse, least=5, most=5)


def _remainder(text: str, width: int) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        raise CommandError(f"Bad format for {text}, expected integer") from None
    if not 0 <= number < 1 << width:
        raise CommandError(f"Integer cannot fit within {width} bits", text)
    return signed(number, width)


def _flag(text: str) -> bool:
    if text in ("true", "True", "false", "False"):
        return text in ("true", "True")
    try:
        return bool(int(text, 0))
    except ValueError:
        raise CommandError("Invalid bool parameter", f"{text} is not true or false") from None


calls("set_crc16_parameters", "change a custom CRC of 16 bits", Standard.bm_set_crc16_custom_parameters, _crc(16),
      _crc_config(16, Crc16Config))  # fmt: skip
calls("set_crc32_parameters", "change a custom CRC of 32 bits", Standard.bm_set_crc32_custom_parameters, _crc(32),
      _crc_config(32, Crc32Config))  # fmt: skip


def _parse_hash_key(words: list[str], parsed: Parsed) -> bytes:
    try:
        key = bytes.fromhex(words[0])
    except ValueError:
        raise CommandError("Toeplitz hash key must be a hex string", words[0]) from None
    if len(key) % 4:
        raise CommandError("Toeplitz hash key must be a multiple of 4 bytes in length", f"{len(key)} bytes")
    return key


calls("set_toeplitz_hash_key", "set the key of a Toeplitz hash, in hexadecimal", Standard.bm_set_toeplitz_hash_key,
      Argument("NAME", lambda words, parsed: words[0]), Argument("KEY", _parse_hash_key))  # fmt: skip

# -- mirroring


def _mirror_to(usage: str, what: str, member: str) -> Argument:
    def parse(words: list[str], parsed: Parsed) -> MirroringSessionConfig:
        return MirroringSessionConfig(**{member: parse_integer(words[0], what)})

    return Argument(usage, parse)


_SESSION = integer("SESSION", "mirror_id")

calls("mirroring_add", "mirror a session to a port", SimpleSwitch.mirroring_session_add, _SESSION,
      _mirror_to("PORT", "egress_port", "port"))  # fmt: skip
calls("mirroring_add_mc", "mirror a session to a multicast group", SimpleSwitch.mirroring_session_add, _SESSION,
      _mirror_to("GROUP", "mgrp", "mgid"))  # fmt: skip
calls("mirroring_delete", "delete a mirroring session", SimpleSwitch.mirroring_session_delete, _SESSION)
calls("mirroring_get", "show a mirroring session", SimpleSwitch.mirroring_session_get, _SESSION, result="{answer}")

# -- queues


def _parse_queue(words: list[str], parsed: Parsed) -> list[int]:
    return [parse_integer(text, what) for text, what in zip(words, ("egress_port", "priority"), strict=False)]


_QUEUE = Argument("[PORT [PRIORITY]]", _parse_queue, least=0, most=2)


def _queue_command(name: str, text: str, amount: Argument, *setters: Callable[..., int]) -> None:
    """`setters`: of all queues, of those of a port, of one queue."""

    @command(name, text, amount, _QUEUE)
    def run(api: Api, value: int, queue: list[int]) -> Iterable[str]:
        getattr(api.target, setters[len(queue)].__name__)(*queue, value)
        return ()


_queue_command("set_queue_depth", "set the depth of a queue, of a port's, or of all", integer("PACKETS", "nb_pkts"),
               SimpleSwitch.set_all_egress_queue_depths, SimpleSwitch.set_egress_queue_depth,
               SimpleSwitch.set_egress_priority_queue_depth)  # fmt: skip
_queue_command("set_queue_rate", "set the rate of a queue, of a port's, or of all",
               integer("PACKETS_PER_SECOND", "rate_pps", INT63), SimpleSwitch.set_all_egress_queue_rates,
               SimpleSwitch.set_egress_queue_rate, SimpleSwitch.set_egress_priority_queue_rate)  # fmt: skip

# -- time

calls("get_time_elapsed", "show the time since the switch started, in microseconds", SimpleSwitch.get_time_elapsed_us,
      result="{answer}")  # fmt: skip
calls("get_time_since_epoch", "show the time since the epoch of the switch's clock, in microseconds",
      SimpleSwitch.get_time_since_epoch_us, result="{answer}")  # fmt: skip
