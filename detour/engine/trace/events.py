# SPDX-License-Identifier: Apache-2.0
"""From records to events: what is in a record by number gets its name, its entry, its place in the source.

Only what may be different later (the entry of a table) is looked up at once; the rest is made when somebody asks for
it, and becomes JSON text without having been made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from detour.engine.compiler.model import HeaderType, Model
from detour.engine.compiler.traced_steps import ELEMENT
from detour.engine.trace.entries import Described, EntryReader
from detour.engine.trace.records import MOST_WAYS, Execution, FormReader, Way, picker
from detour.engine.trace.tree import Event, SourcePlace, UnmadeEvents

Facts = dict[str, Any]
_NO_EVENT = object()
"""what `look` gives for a record that is not an event"""


# -- JSON text without a dictionary for each event: what all of a kind have in common is text already

_STAND_IN = 10**61
"""Numbers that stand for others are from here on: no field is that wide. (They have an even number of digits, so that
one can be bytes in hex.)"""
_STAND_INS = re.compile(r"1\d{61}")


def stand_in(place: int) -> int:
    """Return a document's stand-in for the value of that place."""
    return _STAND_IN + place


def stand_in_bytes(place: int) -> bytes:
    """The same where a document shows bytes in hex."""
    return bytes.fromhex(str(stand_in(place)))


class Template:
    """The text of a document in which stand-ins have places. `format`: with a `%s` for each; `order`: their places."""

    __slots__ = ("format", "order")

    def __init__(self, document: dict[str, Any]) -> None:
        text = json.dumps(document)
        self.order = [int(number) - _STAND_IN for number in _STAND_INS.findall(text)]
        self.format = _STAND_INS.sub("%s", text.replace("%", "%%"))

    def fill(self, values: Sequence[Any]) -> str:
        """The text with these values, numbers or text, by their places."""
        return self.format % tuple([values[place] for place in self.order])


class HeaderText:
    """The text of a header between its braces, from its bytes, if it has its fixed length."""

    __slots__ = ("_bytes", "_format", "_parts")

    def __init__(self, header: str, kind: HeaderType) -> None:
        bits = sum(each.bits for each in kind.fields)
        names = ", ".join(f"{json.dumps(each.name)}: %d" for each in kind.fields)
        head = f'"header": {json.dumps(header)}, "type": {json.dumps(kind.name)}'
        self._format = f'{head}, "fields": {{{names}}}, "hex": "%s"'
        self._bytes = -1 if any(each.variable for each in kind.fields) else bits // 8
        self._parts: list[tuple[int, int]] = []
        for each in kind.fields:
            bits -= each.bits
            self._parts.append((bits, (1 << each.bits) - 1))

    def fill(self, data: bytes) -> str | None:
        """None: it has another length."""
        if len(data) != self._bytes:
            return None
        value = int.from_bytes(data, "big")
        return self._format % (*[(value >> shift) & mask for shift, mask in self._parts], data.hex())


# -- events


class RecordedEvent(Event):
    """An event that a record tells of: the words of its values, and its data. `more`: what is not in the record; the
    entry that a lookup found, the headers that a parser state extracted."""

    __slots__ = ("data", "form", "more", "words")

    def __init__(self, form: EventForm, words: tuple[int, ...], data: bytes) -> None:
        self.kind, self.source, self._facts = form.kind, form.source, None
        self.form, self.words, self.data = form, words, data
        self.more: Any = None

    @property
    def numbers(self) -> Sequence[int]:
        """The values in the order of the form."""
        reader = self.form.reader
        return self.words if reader.plain else reader.decoded(self.words)

    @property
    def values(self) -> dict[str, int]:
        return dict(zip(self.form.reader.names, self.numbers, strict=True))

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            self._facts = self.form.facts(self)
        return self._facts

    def json(self) -> str:
        return self.form.text(self)


class _StandIns(RecordedEvent):
    """An event of a form with stand-ins for its values, its data and, behind those, `more`, if there is such."""

    __slots__ = ("_numbers",)

    def __init__(self, form: EventForm, has_more: bool) -> None:
        count = len(form.reader.names)
        super().__init__(form, (), stand_in_bytes(count))
        self._numbers = [stand_in(place) for place in range(count)]
        self.more = stand_in(count + 1) if has_more else None

    @property
    def numbers(self) -> Sequence[int]:
        return self._numbers


class EventForm:
    """The common part of events of one form of record: `kind`, `source`, and `static`, which is known when
    compiling."""

    look: Callable[[RecordedEvent], Any] | None = None
    """Finds at once what an event has that is not in its record, or _NO_EVENT."""

    def __init__(self, reader: FormReader, kind: str = "") -> None:
        form = reader.form
        self.reader, self.kind = reader, kind or form.kind
        self.static = {name: value for name, value in form.facts.items() if value is not None}
        self.source = None if form.source is None else SourcePlace(**form.source)

    @cached_property
    def plain(self) -> Template:
        """The text of events without `more`."""
        return self.template(False)

    @cached_property
    def full(self) -> Template:
        """The text of events with `more`."""
        return self.template(True)

    def facts(self, event: RecordedEvent) -> Facts:
        """Return all facts of an event."""
        return {**self.static, **event.values}

    def text(self, event: RecordedEvent) -> str:
        """Return the event's document as text."""
        return self.plain.fill(event.numbers)

    def template(self, has_more: bool) -> Template:
        """For events with `more`, or for those without."""
        return Template(_StandIns(self, has_more).as_json())

    def text_of_words(self) -> Template | None:
        """Return the template that makes the text of events without `more` from the words of their values alone; None
        if there is none."""
        return self.plain if self.reader.plain and type(self).text is EventForm.text else None


class _OfElements(EventForm):
    """Events of headers that may be elements of stacks chosen at run time."""

    def __init__(self, reader: FormReader) -> None:
        super().__init__(reader)
        self.chosen = ELEMENT in reader.names

    def named(self, name: str, event: RecordedEvent) -> str:
        """The first element's name as that of the one that is meant."""
        return name.replace("[0]", f"[{event.values[ELEMENT]}]", 1) if self.chosen else name

    def text(self, event: RecordedEvent) -> str:
        return json.dumps(event.as_json()) if self.chosen else super().text(event)

    def text_of_words(self) -> Template | None:
        return self.plain if self.reader.plain and not self.chosen else None


class _Assign(_OfElements):
    def facts(self, event: RecordedEvent) -> Facts:
        values = event.values
        values.pop(ELEMENT, None)
        return {**self.static, "field": self.named(self.static["field"], event), **values}


class _Lookup(EventForm):
    def __init__(self, reader: FormReader, entries: EntryReader) -> None:
        super().__init__(reader)
        self._entries = entries
        self._row, self._hit = (reader.names.index(name) for name in ("$row", "$hit"))

    def look(self, event: RecordedEvent) -> Any:
        """The entry; a reader follows close behind the packets."""
        numbers = event.numbers
        return self._entries.read(self.static["table"], numbers[self._row] - 1) if numbers[self._hit] else None

    def facts(self, event: RecordedEvent) -> Facts:
        values = event.values
        del values["$row"]
        hit = bool(values.pop("$hit"))
        key = [
            {"name": name, "value": value, "match": match}
            for (name, value), match in zip(values.items(), self.static["match"], strict=True)
        ]
        entry = event.more.facts if isinstance(event.more, Described) else event.more
        return {"table": self.static["table"], "key": key, "hit": hit, "entry": entry}

    def text(self, event: RecordedEvent) -> str:
        numbers = event.numbers
        if not numbers[self._hit]:
            return super().text(event)
        return self.full.fill([*numbers, "", "null" if event.more is None else event.more.text])

    def template(self, has_more: bool) -> Template:
        return Template(_StandIns(self, has_more).as_json() | {"hit": has_more})


class _Header(_OfElements):
    """Events of the kinds `extract` and `deparser_emit`."""

    def __init__(self, reader: FormReader, model: Model) -> None:
        super().__init__(reader)
        self._type = model.headers[self.static["header"]].type
        self._inside = HeaderText(self.static["header"], self._type)
        self._source_text = json.dumps(self.source.as_json() if self.source else None)

    def facts(self, event: RecordedEvent) -> Facts:
        name, fields = self.named(self.static["header"], event), fields_of(self._type, event.data)
        return {"header": name, "type": self._type.name, "fields": fields, "hex": event.data.hex()}

    def text(self, event: RecordedEvent) -> str:
        inside = None if self.chosen else self._inside.fill(event.data)
        if inside is None:
            return json.dumps(event.as_json())
        return f'{{"kind": "{self.kind}", {inside}, "source": {self._source_text}}}'

    def text_of_words(self) -> Template | None:
        return None

    def facts_text(self, event: RecordedEvent) -> str:
        """The facts alone, as text."""
        inside = None if self.chosen else self._inside.fill(event.data)
        return json.dumps(event.facts) if inside is None else f"{{{inside}}}"


class _Transition(EventForm):
    """`more` of its events: those of the headers that the state extracted."""

    def facts(self, event: RecordedEvent) -> Facts:
        key = [{"name": name, "value": value} for name, value in event.values.items()]
        extracted = {} if event.more is None else {"extracted": [each.facts for each in event.more]}
        return {**self.static, "key": key, **extracted}

    def text(self, event: RecordedEvent) -> str:
        if event.more is None:
            return super().text(event)
        extracted = ", ".join([each.form.facts_text(each) for each in event.more])
        return self.full.fill([*event.numbers, "", f"[{extracted}]"])

    def template(self, has_more: bool) -> Template:
        document = _StandIns(self, False).as_json()
        if has_more:
            source = document.pop("source")
            document |= {"extracted": stand_in(len(self.reader.names) + 1), "source": source}
        return Template(document)


class _Parsed(EventForm):
    """The end of the parser, which is worth telling if it was an error."""

    def __init__(self, reader: FormReader, model: Model) -> None:
        super().__init__(reader, "parser_transition")
        self._errors = {number: name for name, number in model.errors.items()}

    def look(self, event: RecordedEvent) -> Any:
        """The error's name."""
        number = event.values["parser_error"]
        error = self._errors.get(number, str(number))
        return _NO_EVENT if error == "NoError" else error

    def facts(self, event: RecordedEvent) -> Facts:
        return {"state": None, "next": "reject", "case": event.more, "key": [], "parser_error": event.more}

    def text(self, event: RecordedEvent) -> str:
        return json.dumps(event.as_json())


class _Choice(EventForm):
    def __init__(self, reader: FormReader) -> None:
        super().__init__(reader, "extern_call")

    def facts(self, event: RecordedEvent) -> Facts:
        hashed = {"input": event.data.hex()} if self.reader.form.data else {}
        return {"extern": "choice", **self.static, **event.values, **hashed}

    def text(self, event: RecordedEvent) -> str:
        return self.plain.fill([*event.numbers, event.data.hex()])


class _Plain(EventForm):
    """An event whose facts are a function of what is known when compiling and of the values."""

    def __init__(self, reader: FormReader, kind: str, facts: Callable[[Facts, Facts], Facts]) -> None:
        super().__init__(reader, kind)
        self._facts_of = facts

    def facts(self, event: RecordedEvent) -> Facts:
        return self._facts_of(self.static, event.values)


def _logged(static: Facts, values: Facts) -> Facts:
    text = static["text"]
    for value in values.values():
        text = text.replace("{}", str(value), 1)
    return {"text": text}


_PLAIN: dict[str, tuple[str, Callable[[Facts, Facts], Facts]]] = {
    # kind of record: kind of event, facts
    "action": ("action", lambda static, values: {**static, "parameters": values}),
    "member": ("extern_call", lambda static, values: {"extern": "action_profile", "of": static["profile"], **values}),
    "log_message": ("log_message", _logged),
}


class EventReader:
    """Reads the records of a switch."""

    def __init__(self, model: Model, entries: EntryReader) -> None:
        """`entries`: of the switch's tables, as they are now; a reader follows close behind the packets."""
        self._forms: dict[int, EventForm] = {}
        self._ways: dict[Way, _WayEvents] = {}
        self._kinds: dict[str, Callable[[FormReader], EventForm]] = {
            "table_lookup": lambda reader: _Lookup(reader, entries),
            "assign": _Assign,
            "extract": lambda reader: _Header(reader, model),
            "deparser_emit": lambda reader: _Header(reader, model),
            "parser_transition": _Transition,
            "parsed": lambda reader: _Parsed(reader, model),
            "choice": _Choice,
        }

    def events(self, run: Execution) -> RunEvents:
        """Return the events of a function's run. Headers that a parser state extracted belong to the transition out of
        it."""
        way = self._ways.get(run.way)
        if way is None:
            if len(self._ways) >= MOST_WAYS:
                self._ways.clear()
            way = self._ways[run.way] = _WayEvents(run.way, [self._form(each) for each in run.way.readers])
        return RunEvents(way, run)

    def steps(self, run: Execution) -> list[RecordedEvent]:
        """The same, one for each record; what was extracted has events of its own, of the kind `extract`."""
        return self.events(run).steps()

    def _form(self, reader: FormReader) -> EventForm:
        """Return how records of a form become events."""
        form = self._forms.get(id(reader))
        if form is None:
            plain = _PLAIN.get(reader.kind)
            form = _Plain(reader, *plain) if plain else self._kinds.get(reader.kind, EventForm)(reader)
            self._forms[id(reader)] = form
        return form


class _WayEvents:
    """Events and text of what a function does on a way. `looking`: places of records whose events have to be
    looked up at once; `before`: for the transitions out of parser states, the places of what the state extracted."""

    __slots__ = ("_format", "_made", "_pick", "before", "forms", "looking")

    def __init__(self, way: Way, forms: Sequence[EventForm]) -> None:
        self.forms = forms
        self.looking = [place for place, form in enumerate(forms) if form.look is not None]
        self.before: dict[int, list[int]] = {}
        extracted: list[int] = []
        for place, form in enumerate(forms):
            if form.kind == "extract":
                extracted.append(place)
            elif extracted and isinstance(form, _Transition | _Parsed):
                self.before[place], extracted = extracted, []
        self._compile(way)

    def _compile(self, way: Way) -> None:
        """One text for all events, into which their values are put. Those that nothing simple makes are made one by
        one (`_made`) and put in as they are."""
        formats: list[str] = []
        picks: list[int] = []
        self._made: list[int] = []
        for place, form in enumerate(self.forms):
            if form.kind == "extract" or isinstance(form, _Parsed):
                continue
            template = None if place in self.before else form.text_of_words()
            if template is None:
                formats.append("%s")
                picks.append(way.width + len(self._made))
                self._made.append(place)
            else:
                formats.append(template.format)
                picks += [way.starts[place] + number for number in template.order]
        self._format, self._pick = ", ".join(formats), picker(picks)

    def text(self, events: RunEvents) -> str:
        """Return the text of events none of which is the parser's error."""
        texts = [events.step(place).json() for place in self._made]
        return self._format % self._pick((*events.run.words, *texts))


class RunEvents(UnmadeEvents):
    """The events of a function's run for a packet."""

    __slots__ = ("_looked", "_way", "run")

    def __init__(self, way: _WayEvents, run: Execution) -> None:
        self._way, self.run = way, run
        self._looked: dict[int, RecordedEvent] = {}
        for place in way.looking:
            event = self._event(place)
            assert event.form.look is not None
            event.more = event.form.look(event)
            self._looked[place] = event

    def _event(self, place: int) -> RecordedEvent:
        return RecordedEvent(self._way.forms[place], self.run.values_of(place), self.run.data_of(place))

    def step(self, place: int) -> RecordedEvent:
        """The event of a record."""
        event = self._looked.get(place) or self._event(place)
        if place in self._way.before and isinstance(event.form, _Transition):
            event.more = [self._event(each) for each in self._way.before[place]]
        return event

    def steps(self) -> list[RecordedEvent]:
        """One for each record that tells something."""
        events = [self._looked.get(place) or self._event(place) for place in range(len(self._way.forms))]
        return [event for event in events if event.more is not _NO_EVENT]

    def made(self) -> list[Event]:
        """Make the events; headers that a parser state extracted belong to the transition out of it."""
        events: list[Event] = []
        for place, form in enumerate(self._way.forms):
            if form.kind == "extract":
                continue
            event = self.step(place)
            if event.more is _NO_EVENT:
                continue
            if isinstance(form, _Parsed) and place in self._way.before:
                event.facts["extracted"] = [self._event(each).facts for each in self._way.before[place]]
            events.append(event)
        return events

    def json(self) -> str:
        """The texts of all, one behind the other."""
        if all(event.more is _NO_EVENT for event in self._looked.values() if isinstance(event.form, _Parsed)):
            return self._way.text(self)
        return ", ".join([event.json() for event in self.made()])


def fields_of(kind: HeaderType, data: bytes) -> dict[str, int]:
    """The fields of a header as it is on the wire; what a variable-length field has, as a number too."""
    bits = 8 * len(data)
    value = int.from_bytes(data, "big")
    rest = bits - sum(f.bits for f in kind.fields if not f.variable)
    fields = {}
    for each in kind.fields:
        width = rest if each.variable else each.bits
        bits -= width
        fields[each.name] = (value >> bits) & ((1 << width) - 1) if bits >= 0 else 0
    return fields
