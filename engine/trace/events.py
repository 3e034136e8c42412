# SPDX-License-Identifier: Apache-2.0
"""From records to events: what is in a record by number gets its name, its entry, its place in the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from detour.engine.compiler.model import HeaderType, Model
from detour.engine.compiler.tracing import TraceForm
from detour.engine.trace.records import Execution, TraceRecord
from detour.engine.trace.tree import Event, SourcePlace

DescribeEntry = Callable[[str, int], Any]
"""(table, handle) -> the entry as the controller wrote it, or None"""
Facts = dict[str, Any]
_Make = Callable[[TraceRecord, Facts, SourcePlace | None], Event | None]
_Known = tuple[_Make, Facts, SourcePlace | None]


class EventReader:
    """Reads the records of a switch."""

    def __init__(self, model: Model, describe: DescribeEntry) -> None:
        """`describe`: looks an entry up, now; a reader follows close behind the packets."""
        self._model, self._describe = model, describe
        self._errors = {number: name for name, number in model.errors.items()}
        self._known: dict[int, _Known] = {}
        self._kinds: dict[str, _Make] = {
            "table_lookup": self._lookup,
            "assign": _assign,
            "action": _action,
            "extract": self._extract,
            "deparser_emit": self._emit,
            "parser_transition": _transition,
            "parsed": self._parsed,
            "log_message": _log,
            "choice": _choice,
            "member": _member,
        }

    def events(self, run: Execution) -> Iterator[Event]:
        """What a function did. Headers that a parser state extracted belong to the transition out of it."""
        extracted: list[Event] = []
        for _, event in self.steps(run):
            if event.kind == "extract":
                extracted.append(event)
                continue
            if extracted and event.kind == "parser_transition":
                event.facts["extracted"] = [each.facts for each in extracted]
                extracted = []
            yield event

    def steps(self, run: Execution) -> Iterator[tuple[TraceRecord, Event]]:
        """The same, one for each record; what was extracted has events of its own, of the kind `extract`."""
        for record in run.records:
            make, about, source = self._known.get(id(record.form)) or self._learn(record.form)
            event = make(record, about, source)
            if event is not None:
                yield record, event

    def _learn(self, form: TraceForm) -> _Known:
        """How records of a form become events: what all of them say, and where."""
        about = {name: value for name, value in form.about.items() if value is not None}
        source = None if form.source is None else SourcePlace(**form.source)
        known = self._known[id(form)] = self._kinds.get(form.kind, _plain), about, source
        return known

    def _lookup(self, record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
        values = dict(record.values)
        row, hit = values.pop("$row"), bool(values.pop("$hit"))
        key = [
            {"name": name, "value": value, "match": match}
            for (name, value), match in zip(values.items(), about["match"], strict=True)
        ]
        entry = self._describe(about["table"], row - 1) if hit else None
        return Event("table_lookup", {"table": about["table"], "key": key, "hit": hit, "entry": entry}, source)

    def _extract(self, record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
        return Event("extract", self._header(record, about))

    def _emit(self, record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
        return Event("deparser_emit", self._header(record, about), source)

    def _header(self, record: TraceRecord, about: Facts) -> Facts:
        kind = self._model.headers[about["header"]].type
        fields = fields_of(kind, record.data)
        return {"header": about["header"], "type": kind.name, "fields": fields, "hex": record.data.hex()}

    def _parsed(self, record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event | None:
        """The end of the parser, which is worth telling if it was an error."""
        error = self._errors.get(record.values["parser_error"], str(record.values["parser_error"]))
        if error == "NoError":
            return None
        facts = {"state": None, "next": "reject", "case": error, "key": [], "parser_error": error}
        return Event("parser_transition", facts)


def _plain(record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
    return Event(record.form.kind, {**about, **record.values}, source)


def _action(record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
    return Event("action", {**about, "parameters": record.values}, source)


def _assign(record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
    record.values.pop("$inside", None)
    return Event("assign", {**about, **record.values}, source)


def _transition(record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
    key = [{"name": name, "value": value} for name, value in record.values.items()]
    return Event("parser_transition", {**about, "key": key}, source)


def _choice(record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
    facts = {"extern": "choice", **about, **record.values}
    if record.form.data:
        facts["input"] = record.data.hex()
    return Event("extern_call", facts, source)


def _member(record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
    return Event("extern_call", {"extern": "action_profile", "of": about["profile"], **record.values}, source)


def _log(record: TraceRecord, about: Facts, source: SourcePlace | None) -> Event:
    text = about["text"]
    for value in record.values.values():
        text = text.replace("{}", str(value), 1)
    return Event("log_message", {"text": text}, source)


def fields_of(kind: HeaderType, data: bytes) -> dict[str, int]:
    """The fields of a header as it is on the wire; what a variable-length field has, as a number too."""
    bits = 8 * len(data)
    value = int.from_bytes(data, "big")
    rest = bits - sum(f.bits for f in kind.fields if not f.variable)
    found = {}
    for each in kind.fields:
        width = rest if each.variable else each.bits
        bits -= width
        found[each.name] = (value >> bits) & ((1 << width) - 1) if bits >= 0 else 0
    return found
