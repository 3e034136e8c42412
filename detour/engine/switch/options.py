# SPDX-License-Identifier: Apache-2.0
"""The command line of simple_switch_grpc: BMv2's own options, then `--`, then those of the target.

Three kinds of options: honoured; *without effect here*, which harnesses pass as a matter of course and which cost
nothing to do without (`SwitchOptions.notices` says so); and refused by name, because whoever gives
them relies on something that would not happen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from detour.base.dataplane import DROP_PORT, HIGHEST_PORT
from detour.base.errors import DetourError
from detour.engine.compiler.portable import ARCHITECTURES

DEFAULT_ADDRESS = "0.0.0.0:9559"
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]", "*": "127.0.0.1"}
LOG_LEVELS = ("trace", "debug", "info", "warn", "error", "off")
SPOKEN_VERSION = "1.15.5"
"""The simple_switch_grpc whose command line and behaviour this follows."""
JSON_VERSION = "2.24"
MAX_PRIORITIES = 64

REFUSED = {
    "--restore-state": "the state of a switch cannot be restored from a file; write it by P4Runtime",
    "--packet-in": "there is no nanomsg here; attach interfaces with -i PORT@IFACE",
    "--debugger": "there is no BMv2 debugger here",
    "--debugger-addr": "there is no BMv2 debugger here",
}
"""Options of BMv2 that are refused, and why."""

REFUSED_TARGET = {
    "--load-modules": "modules for BMv2 are not loaded",
    "--disable-swap": "a new pipeline always takes effect at once",
    "--dp-grpc-server-addr": "packets come and go by interfaces and by P4Runtime, not by BMv2's data-plane service",
}
"""Options of simple_switch_grpc that are refused, and why."""


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of the gRPC server."""

    certificate: Path
    key: Path
    ca: Path | None = None
    require_client: bool = False


@dataclass(frozen=True)
class SwitchOptions:
    """Options of the command line."""

    interfaces: dict[int, str] = field(default_factory=dict)
    """port number -> interface name (or stem of file names, with `use_files`)"""
    config: Path | None = None
    """BMv2 JSON to start with; None: wait for a pipeline"""
    device_id: int = 0
    pcap: Path | None = None
    use_files: int | None = None
    """read and write capture files in place of interfaces, after that many seconds"""
    log_console: bool = False
    log_file: Path | None = None
    log_level: str = "trace"
    log_packets: bool = False
    """whether what happens to every packet is logged: only if the level was given, for it costs much"""
    log_file_bytes: int = 5 << 20
    log_file_count: int = 3
    dump_packet_data: int = 0
    address: str = DEFAULT_ADDRESS
    thrift_port: int | None = None
    """where BMv2's runtime API is served, 0: any port that is free; None: nowhere"""
    notifications: str | None = None
    """where BMv2's notifications are published, if its runtime API is served; None: where BMv2 does, if that can be"""
    tls: TlsFiles | None = None
    cpu_port: int | None = None
    drop_port: int = DROP_PORT
    promote_backup: bool = False
    """whether the best backup controller becomes primary when the primary goes, which the specification forbids"""
    priorities: int = 1
    architecture: str | None = None
    """the only one that programs may be for; None: any"""
    coverage: Path | None = None
    """file for what packets reach of the program (`engine.coverage`)"""
    notices: tuple[str, ...] = ()
    """what was given and has no effect"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong by `DetourError` and leaves exiting to the command."""

    def error(self, message: str) -> NoReturn:
        raise DetourError(f"detour switch: {message}")


class _Refuse(argparse.Action):
    """An option that cannot be honoured."""

    def __init__(self, option_strings: Sequence[str], dest: str, reason: str = "", **other: Any) -> None:
        super().__init__(option_strings, dest, nargs="?", help=argparse.SUPPRESS)
        self.reason = reason

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        raise DetourError(f"detour switch: {option_string} is not supported: {self.reason}")


def _interface(text: str) -> tuple[int, str]:
    number, at, name = text.partition("@")
    if not at or not number.isdecimal() or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT@INTERFACE, for example 1@veth0")
    if int(number) > HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"port {number} is beyond {HIGHEST_PORT} (port numbers have nine bits)")
    return int(number), name


def _number(low: int, high: int) -> Any:
    def convert(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
        return int(text)

    return convert


Option = tuple[tuple[str, ...], dict[str, Any]]
"""names and what `argparse` is to know"""


def _option(names: str, text: str, metavar: str | None = None, **settings: Any) -> Option:
    if metavar is not None:
        settings["metavar"] = metavar
    return tuple(names.split()), {"help": text} | settings


def _flag(names: str, text: str) -> Option:
    return _option(names, text, action="store_true")


_COUNT = _number(1, 2**31 - 1)
_PRIORITIES = _number(1, MAX_PRIORITIES)

_COMMON = (
    _option("config", "BMv2 JSON, or the P4 program itself; or give --no-p4", "JSON|P4", nargs="?", type=Path),
    _flag("-h --help", "show this and exit"),
    _flag("-v --version", "show the version and exit"),
    _flag("--json-version", "show the newest supported version of BMv2 JSON and exit"),
    _option("-i --interface", "attach a network interface to a port; repeatable", "PORT@IFACE",
            action="append", default=[], type=_interface),
    _flag("--no-p4", "start without a program"),
    _option("--arch", "accept programs for this architecture only: " + ", ".join(ARCHITECTURES) + " (default: "
            "that of the JSON)", "NAME", choices=ARCHITECTURES),
    _option("--device-id", "device id in P4Runtime (0)", "N", type=_number(0, 2**64 - 1), default=0),
    _option("--pcap", "write IFACE_in.pcap and IFACE_out.pcap for every interface (into the current folder)", "DIR",
            nargs="?", type=Path, const=Path(".")),
    _option("--use-files", "instead of interfaces, read IFACE_in.pcap after this time and write "
            "IFACE_out.pcap", "SECONDS", type=int),
    _flag("--log-console", "log to standard output"),
    _option("--log-file", "log to FILE.txt, with rotation", "FILE", type=Path),
    _option("-L --log-level", "lowest level to log: " + ", ".join(LOG_LEVELS) + " (trace); if given, debug and "
            "trace log every packet", "LEVEL",
            choices=LOG_LEVELS),
    _flag("--log-flush", "accepted without effect: every line of --log-file is written at once"),
    _option("--log-file-max-size", "size at which the log rotates (5 MB)", "BYTES", type=_number(1, 2**63),
            default=5 << 20),
    _option("--log-file-max-files", "rotated files to keep (3)", "N", type=_number(0, 10**6), default=3),
    _option("--dump-packet-data", "log this many bytes of every received and sent packet", "BYTES",
            type=_number(0, 2**31), default=0),
    _option("--max-port-count", "accepted without effect", "N", type=_number(0, 2**31)),
    _option("--thrift-port", "serve BMv2's runtime API over Thrift on this port, on loopback (default: not served; "
            "0: any free port)", "N",
            type=_number(0, 65535)),
    _option("--notifications-addr", "publish digests and port states over nanomsg at this address, with "
            "--thrift-port (ipc:///tmp/bmv2-DEVICE-notifications.ipc)", "ADDRESS"),
    _option("--coverage", "write the program's coverage by packets at the end (docs/coverage.md)", "FILE",
            type=Path),
    _option("--nanolog", "accepted without effect: no nanomsg event log", "ADDRESS"),
    _option("--priority-queues", "as after --", "N", type=_PRIORITIES),
)  # fmt: skip
"""BMv2's own options."""

_TARGET = (
    _option("--grpc-server-addr", f"address of the P4Runtime server ({DEFAULT_ADDRESS}); without TLS only on loopback",
            "HOST:PORT", default=DEFAULT_ADDRESS),
    _flag("--grpc-server-ssl", "serve with TLS"),
    _option("--grpc-server-cacert", "CA that verifies clients' certificates", "PEM", type=Path),
    _option("--grpc-server-cert", "the server's certificate chain", "PEM", type=Path),
    _option("--grpc-server-key", "the server's private key", "PEM", type=Path),
    _flag("--grpc-server-with-client-auth", "require client certificates"),
    _option("--cpu-port", "port of packet-in and packet-out (none)", "N", type=_number(1, HIGHEST_PORT)),
    _option("--drop-port", f"drop port ({DROP_PORT})", "N", type=_number(0, HIGHEST_PORT),
            default=DROP_PORT),
    _option("--priority-queues", "queues per port (1)", "N", type=_PRIORITIES),
    _flag("--promote-backup", "when the primary controller disconnects, promote the best backup, as "
            "simple_switch_grpc does"),
    _option("--max-mc-groups", "accepted without effect; the limit is 65535", "N", type=_COUNT),
    _option("--max-l1-entries", "accepted without effect; limited by memory", "N", type=_COUNT),
    _option("--max-l2-entries", "accepted without effect; limited by memory", "N", type=_COUNT),
)  # fmt: skip
"""What simple_switch_grpc adds, after `--`."""


def _parser(prog: str, options: Sequence[Option], refused: dict[str, str], **settings: Any) -> _Parser:
    parser = _Parser(prog=prog, add_help=False, **settings)
    for names, settings_of in options:
        parser.add_argument(*names, **settings_of)
    for name, reason in refused.items():
        parser.add_argument(name, action=_Refuse, reason=reason)
    return parser


def _common_parser() -> _Parser:
    usage = "detour switch [options] [PROGRAM | --no-p4] [-- target options]"
    text = "A drop-in for simple_switch_grpc: one P4 switch on network interfaces, served by P4Runtime."
    return _parser("detour switch", _COMMON, REFUSED, usage=usage, description=text)


def _target_parser() -> _Parser:
    return _parser("detour switch ... --", _TARGET, REFUSED_TARGET, usage=argparse.SUPPRESS)


def help_text() -> str:
    """Return the text of `--help`."""
    return f"{_common_parser().format_help()}\ntarget options, after --:\n{_target_parser().format_help()}"


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words before the first `--` from those after it."""
    before = list(arguments)
    if "--" not in before:
        return before, []
    at = before.index("--")
    return before[:at], before[at + 1 :]


def parse(arguments: Sequence[str]) -> SwitchOptions | str:
    """Understand a command line. A string is to be printed instead: help or a version. `DetourError` if wrong."""
    before, after = split(arguments)
    common = _known(_common_parser(), before, _target_parser(), "before -- (it belongs after it)")
    target = _known(_target_parser(), after, _common_parser(), "after -- (it belongs before it)")
    if common.help:
        return help_text()
    if common.version:
        return f"{SPOKEN_VERSION}-detour\n"
    if common.json_version:
        return f"{JSON_VERSION}\n"
    if common.log_console and common.log_file is not None:
        raise DetourError("detour switch: --log-console and --log-file exclude each other")
    return SwitchOptions(
        interfaces=_interfaces(common, target),
        config=_config(common),
        device_id=common.device_id,
        pcap=_folder(common.pcap),
        use_files=None if common.use_files is None else max(0, common.use_files),
        log_console=common.log_console,
        log_file=common.log_file,
        log_level=common.log_level or "trace",
        log_packets=common.log_level in ("trace", "debug") and (common.log_console or common.log_file is not None),
        log_file_bytes=common.log_file_max_size,
        log_file_count=common.log_file_max_files,
        dump_packet_data=common.dump_packet_data,
        address=target.grpc_server_addr,
        thrift_port=common.thrift_port,
        notifications=common.notifications_addr,
        tls=_tls(target),
        cpu_port=target.cpu_port,
        drop_port=target.drop_port,
        promote_backup=target.promote_backup,
        priorities=target.priority_queues or common.priority_queues or 1,
        architecture=common.arch,
        coverage=_coverage(common.coverage),
        notices=tuple(_notices(common, target)),
    )


def _known(parser: _Parser, arguments: list[str], other: _Parser, where: str) -> argparse.Namespace:
    """Parse; an option that belongs to the `other` part of the command line is said to belong `where`."""
    options, unknown = parser.parse_known_args(arguments)
    if not unknown:
        return options
    option = unknown[0].partition("=")[0]
    if not option.startswith("-"):
        raise DetourError(f"detour switch: {option!r} is an extra argument")
    hint = f" {where}" if f"{option} " in other.format_help() else ""
    raise DetourError(f"detour switch: unknown option {option}{hint}; see detour switch --help")


def _interfaces(common: argparse.Namespace, target: argparse.Namespace) -> dict[int, str]:
    interfaces: dict[int, str] = {}
    for port, name in common.interface:
        if port in interfaces:
            raise DetourError(f"detour switch: port {port} is given twice: {interfaces[port]} and {name}")
        if port == target.cpu_port:
            raise DetourError(f"detour switch: port {port} is the CPU port and cannot have interface {name}")
        interfaces[port] = name
    if target.cpu_port is not None and target.cpu_port == target.drop_port:
        raise DetourError(f"detour switch: --cpu-port and --drop-port are both {target.cpu_port}")
    return dict(sorted(interfaces.items()))


def _config(common: argparse.Namespace) -> Path | None:
    if common.no_p4:
        return None
    if common.config is None:
        raise DetourError("detour switch: give a program, P4 or BMv2 JSON, or --no-p4 to wait for a pipeline")
    if not common.config.is_file():
        raise DetourError(f"detour switch: {common.config} is not a file")
    if common.config.suffix == ".p4":
        from detour.p4.build import build

        return build(common.config).json
    return common.config


def _folder(pcap: Path | None) -> Path | None:
    if pcap is not None and not pcap.is_dir():
        raise DetourError(f"detour switch: --pcap: {pcap} is not a folder")
    return pcap


def _coverage(file: Path | None) -> Path | None:
    if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
        raise DetourError(f"detour switch: --coverage: {file} cannot be written: it is a folder, or has none")
    return file


def _tls(target: argparse.Namespace) -> TlsFiles | None:
    if not target.grpc_server_ssl:
        return None
    for name in ("grpc_server_cert", "grpc_server_key"):
        if getattr(target, name) is None:
            raise DetourError(f"detour switch: --grpc-server-ssl needs --{name.replace('_', '-')}")
    if target.grpc_server_with_client_auth and target.grpc_server_cacert is None:
        raise DetourError("detour switch: --grpc-server-with-client-auth needs --grpc-server-cacert to verify clients")
    files = (target.grpc_server_cert, target.grpc_server_key, target.grpc_server_cacert)
    for path in files:
        if path is not None and not path.is_file():
            raise DetourError(f"detour switch: {path} is not a file")
    return TlsFiles(*files, require_client=target.grpc_server_with_client_auth)


def _notices(common: argparse.Namespace, target: argparse.Namespace) -> list[str]:
    notices: list[str] = []
    if common.nanolog is not None:
        notices.append("--nanolog has no effect: there is no nanomsg event log here")
    if common.notifications_addr is not None and common.thrift_port is None:
        notices.append("--notifications-addr has no effect without --thrift-port")
    if common.no_p4 and common.config is not None:
        notices.append(f"{common.config} is ignored, because --no-p4 was given")
    if common.log_flush and common.log_file is None:
        notices.append("--log-flush has no effect without --log-file")
    names = ("cacert", "cert", "key", "with_client_auth")
    if not target.grpc_server_ssl and any(getattr(target, f"grpc_server_{name}") for name in names):
        notices.append("certificates have no effect without --grpc-server-ssl")
    return notices


def narrowed(options: SwitchOptions) -> tuple[str, str]:
    """The address where P4Runtime is served, and what to say about it (empty: it is the one that was asked for).

    BMv2 serves all interfaces by default, and harnesses ask for that by name (`0.0.0.0:50051`) though their
    controllers run on the same machine. Without client certificates anybody who can reach the port could program the
    switch, so such an address is narrowed to loopback, which is said; any other foreign address is refused.
    """
    host, _, port = options.address.rpartition(":")
    certified = options.tls is not None and options.tls.require_client and options.tls.ca is not None
    if host not in _LOOPBACK or certified:
        return options.address, ""
    address = f"{_LOOPBACK[host]}:{port}"
    notice = f"P4Runtime is served on {address} only: {options.address} needs TLS with client certificates"
    return address, notice
