# SPDX-License-Identifier: Apache-2.0
"""A packet's trace for people: an indented tree that fits 80 columns, with the P4 line in grey behind what it did."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from detour.cli.output import Page, present

if TYPE_CHECKING:
    from detour.cli.output import Page
    from detour.fabric.operations.results import LivePackets, PacketTrace

_WIDTH = 80
_SOURCE = "bright_black"
_STYLES = {
    "stage": "bold cyan", "table_lookup": "yellow", "mark_to_drop": "bold red", "clone": "magenta",
    "multicast": "magenta", "queue": "blue", "assertion": "red",
}  # fmt: skip
_QUIET = {"assign", "branch", "deparser_emit"}  # kinds that only `-v` shows
_LOCAL = "scalars."
_WIDE = 1 << 32

_Facts = dict[str, Any]


def show_packets(page: Page, packets: Iterable[PacketTrace], verbose: bool) -> None:
    """One after the other, with their numbers."""
    for number, packet in enumerate(packets, 1):
        page.print(f"packet {number}", style="bold")
        show_packet(page, packet, verbose)


def show_packet(page: Page, packet: PacketTrace, verbose: bool) -> None:
    """All hops, and what becomes of the packet."""
    for hop in packet.hops:
        share = f"  {hop['fraction']:.1%} of the traffic" if "fraction" in hop else ""
        when = f"  at {hop['at_ns'] / 1000:.3f} us" if hop["at_ns"] else ""
        page.print(f"{hop['switch']}, port {hop['port']}{when}{share}", style="bold")
        _show_tree(page, hop["trace"], 1, verbose)
    for ending in packet.outcomes:
        page.print(_ending(ending))
    if packet.note:
        page.print(packet.note)


def _ending(ending: _Facts) -> str:
    share = "" if ending["fraction"] == 1 else f"{ending['fraction']:.1%}: "
    if ending["dropped"] is not None:
        lost = ending["dropped"]
        return f"{share}dropped at {lost['switch']}: {lost['reason']}{_at(lost['source'])}"
    arrived = ending["packets"][0]
    to = arrived["host"] or f"port {arrived['port']} of {arrived['switch']}"
    return f"{share}arrives at {to}, {arrived.get('bytes', len(arrived['hex']) // 2)} bytes"


def _at(source: _Facts | None) -> str:
    return "" if source is None else f" ({source['file'].rsplit('/', 1)[-1]}:{source['line']})"


def _show_tree(page: Page, tree: _Facts, depth: int, verbose: bool) -> None:
    for event in tree["events"]:
        for line, style in _lines(event, verbose):
            _put(page, depth + (event["kind"] != "stage"), line, style, event["source"])
            event = {**event, "source": None}  # once
    fork = tree.get("fork")
    if fork is not None:
        _put(page, depth, f"{fork['reason']}: {'all of these' if fork['all'] else 'one of these'}", "magenta", None)
        for branch in fork["branches"]:
            share = "" if fork["all"] or branch["fraction"] is None else f" ({branch['fraction']:.1%})"
            _put(page, depth + 1, f"{branch['label']}{share}", "bold magenta", None)
            _show_tree(page, branch["trace"], depth + 2, verbose)
        return
    outcome = tree.get("outcome") or {}
    if "output" in outcome:
        _put(page, depth, f"out by port {outcome['output']['port']}", "bold green", None)
    elif "dropped" in outcome:
        _put(page, depth, f"dropped: {outcome['dropped']['reason']}", "bold red", outcome["dropped"]["source"])


def _put(page: Page, depth: int, text: str, style: str | None, source: _Facts | None) -> None:
    """A line, cut to the width, with its place in the source if there is room."""
    from rich.text import Text

    indent = "  " * depth
    room = max(page.console.width if page.console.is_terminal else _WIDTH, 40) - len(indent)
    line = Text(indent)
    line.append(text if len(text) <= room else text[: room - 3] + "...", style=style or "")
    if source is not None:
        where = f"{source['file'].rsplit('/', 1)[-1]}:{source['line']}"
        left = room - min(len(text), room) - 2
        if left >= len(where):
            fragment = " ".join(source["text"].split())
            shown = f"{where} {fragment}" if len(where) + 1 + len(fragment) <= left else where
            line.append("  " + shown, style=_SOURCE)
    page.console.print(line, highlight=False, soft_wrap=True)


def _lines(event: _Facts, verbose: bool) -> Iterator[tuple[str, str | None]]:
    kind = event["kind"]
    if kind in _QUIET and not verbose and not _matters(event):
        return
    style = _STYLES.get(kind)
    for line in _SHOWN.get(kind, _other)(event, verbose):
        yield line, style


def _matters(event: _Facts) -> bool:
    """An assignment that changed a header, or where the packet goes."""
    if event["kind"] != "assign" or "after" not in event or event["before"] == event["after"]:
        return False
    return not event["field"].startswith(_LOCAL)


def _stage(event: _Facts, _: bool) -> Iterator[str]:
    if event["stage"] == "traffic_manager":
        yield f"queue of port {event['egress_spec']}, priority {event['priority']}"
    else:
        yield event["stage"]


def _ingress(event: _Facts, _: bool) -> Iterator[str]:
    frame = f"{event['bytes']} bytes come" if "bytes" in event else "comes"
    yield f"{frame} in by port {event['port']}"


def _transition(event: _Facts, verbose: bool) -> Iterator[str]:
    for header in event.get("extracted", ()):
        yield f"extract {header['header']}" + ("" if verbose else f"  {_brief(header['fields'])}")
        if verbose:
            yield from (f"  {name} = {number(value)}" for name, value in header["fields"].items())
    if event.get("parser_error"):
        yield f"parser error {event['parser_error']}"
        return
    key = ", ".join(f"{k['name']} = {number(k['value'])}" for k in event["key"])
    yield f"{event['state']} -> {event['next']}" + (f"  ({key})" if key else "")


def _brief(fields: _Facts) -> str:
    return " ".join(number(value) for value in fields.values())


def _lookup(event: _Facts, _: bool) -> Iterator[str]:
    key = ", ".join(f"{k['name'].removeprefix('hdr.')}={number(k['value'])}" for k in event["key"])
    yield f"{_short(event['table'])}: {'hit' if event['hit'] else 'miss'}" + (f"  [{key}]" if key else "")
    if event["entry"] is not None:
        number_of = "" if event["entry"]["handle"] is None else f" {event['entry']['handle']}"
        yield f"  entry{number_of}: {_entry(event['entry'])}"


def _entry(entry: _Facts) -> str:
    parts = []
    for k in entry["key"]:
        name = k["name"].removeprefix("hdr.")
        if "prefix_len" in k:
            parts.append(f"{name}={number(k['value'])}/{k['prefix_len']}")
        elif "mask" in k:
            parts.append(f"{name}={number(k['value'])}&&&{number(k['mask'])}")
        elif "low" in k:
            parts.append(f"{name}={number(k['low'])}..{number(k['high'])}")
        else:
            parts.append(f"{name}={'any' if k.get('any') else number(k['value'])}")
    does = entry.get("action") or ("group" in entry and f"group {entry['group']}") or f"member {entry.get('member')}"
    return f"{', '.join(parts)} -> {_short(str(does))}"


def _action(event: _Facts, _: bool) -> Iterator[str]:
    values = ", ".join(f"{name}={number(value)}" for name, value in event["parameters"].items())
    yield f"{_short(event['action'])}({values})"


def _branch(event: _Facts, _: bool) -> Iterator[str]:
    yield f"if: {'true' if event['value'] else 'false'}"


def _assign(event: _Facts, _: bool) -> Iterator[str]:
    field = event["field"].removeprefix(_LOCAL)
    if field.endswith(".$valid$"):
        yield f"{field.removesuffix('.$valid$')}.{event['by']}()"
    elif "after" in event:
        yield f"{field}: {number(event['before'])} -> {number(event['after'])}"
    else:
        yield f"{field} is written"


def _queue(event: _Facts, _: bool) -> Iterator[str]:
    yield (
        f"waited {event['wait_ticks']} ticks in port {event['port']}'s queue {event['priority']}: "
        f"found {event['depth_found']} packets, left {event['depth_left']}"
    )


def _extern(event: _Facts, verbose: bool) -> Iterator[str]:
    name = event["extern"]
    if name == "choice":
        return
    shown = {k: v for k, v in event.items() if k not in ("kind", "source", "extern", "of", "to", "algorithm")}
    values = ", ".join(f"{k}={number(v)}" for k, v in shown.items())
    of = f" {_short(event['of'])}" if event.get("of") else ""
    if name != "count" or verbose:
        yield f"{name}{of}({values})"


def _emit(event: _Facts, _: bool) -> Iterator[str]:
    yield f"emit {event['header']}  {_brief(event['fields'])}".rstrip()


def _log(event: _Facts, _: bool) -> Iterator[str]:
    yield f'log "{event["text"]}"'


def _other(event: _Facts, _: bool) -> Iterator[str]:
    shown = {k: v for k, v in event.items() if k not in ("kind", "source")}
    values = ", ".join(f"{k}={v if isinstance(v, str) else number(v)}" for k, v in shown.items())
    yield event["kind"] + (f"({values})" if values else "")


def number(value: Any) -> str:
    """A value: small ones in decimal, large ones in hex."""
    if not isinstance(value, int):
        return str(value)
    return f"{value:#x}" if abs(value) >= _WIDE else str(value)


def _short(name: str) -> str:
    """A name of P4Info without the control that it is in."""
    return name.split(".", 1)[-1]


_SHOWN = {
    "stage": _stage, "packet_ingress": _ingress, "parser_transition": _transition, "table_lookup": _lookup,
    "action": _action, "branch": _branch, "assign": _assign, "queue": _queue, "extern_call": _extern,
    "deparser_emit": _emit, "log_message": _log,
}  # fmt: skip


def present_traced(
    result: Any, options: argparse.Namespace, show: Callable[[Page], None], traced: LivePackets | None
) -> None:
    """Show a result; with `traced`, packets come first, and stand under `traced` in JSON."""
    if traced is None:
        present(result, options, show)
        return
    from detour.base.records import as_json

    def render(page: Page) -> None:
        show_packets(page, traced.packets, verbose=False)
        more = f"; {traced.missed} more were wanted" if traced.missed else ""
        page.print(f"{len(traced.packets)} packets traced{more}\n")
        show(page)

    present({**as_json(result), "traced": as_json(traced)}, options, render)
