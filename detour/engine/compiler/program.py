# SPDX-License-Identifier: Apache-2.0
"""A P4 program as machine code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError, InternalError, told_of
from detour.base.records import as_json, from_json
from detour.engine.compiler import context, native
from detour.engine.compiler.control import write_pipeline
from detour.engine.compiler.covering import COLLECTOR, CoverageSite, SiteWriter
from detour.engine.compiler.deparser import (
    DigestList,
    digest_lists,
    max_header_bytes,
    write_deparser,
    write_digest,
    write_ingress_deparser,
    write_preserve,
)
from detour.engine.compiler.ir import Module
from detour.engine.compiler.layout import Layout
from detour.engine.compiler.load import load
from detour.engine.compiler.log_ring import LogFormat
from detour.engine.compiler.model import MAX_HEADER_BYTES, MAX_PHV_BYTES, Model, read_json, refuse
from detour.engine.compiler.parser import write_parser
from detour.engine.compiler.portable import EGRESS_PARSER, PSA
from detour.engine.compiler.prefetch import write_prefetch
from detour.engine.compiler.slots import COVERAGE, TRACED_COVERAGE, Slots, assign_slots
from detour.engine.compiler.traced import write_traced
from detour.engine.compiler.tracing import RecordWriter, TraceForm

_Readings = tuple[tuple[LogFormat, ...], tuple[TraceForm, ...], tuple[CoverageSite, ...]]


@contextmanager
def _blame() -> Iterator[None]:
    """Validation has names for all that a document may lack, so what else goes wrong is a mistake of the compiler. It
    descends as deep as the document does, and so only what is nested too deep ends its recursion."""
    try:
        yield
    except (DetourError, InternalError, MemoryError):
        raise
    except RecursionError as e:
        raise refuse("an expression of the BMv2 JSON is nested too deep") from e
    except Exception as e:
        raise InternalError.of("compiling a P4 program", e) from e


class Program:
    """A compiled P4 program; all switches that run it share the code.

    `parse_addr` and the other addresses are those of native functions whose arguments and results are int64
    (docs/architecture.md). `phv_size` is the size of a PHV, which must begin at a multiple of 8. `ingress_deparse_addr`
    and `egress_parse_addr` are PSA's, else 0. `max_header_bytes` is the most that deparse writes, `max_digest_bytes`
    the most that digest writes.
    """

    def __init__(
        self,
        source: dict[str, Any],
        *,
        use_cache: bool = True,
        apart: native.CompileLimits | None = None,
        traced: bool = False,
        covered: bool | None = None,
    ) -> None:
        """`apart`: compile in a process of its own, under these limits. `traced`: with records of what happens to
        packets (`traced.py`), whose `trace_forms` there are then; to be used by a recorder only (`engine.trace`).
        `covered`: with counters of what packets reach (`covering.py`), whose `coverage_sites` and `coverage` (int64)
        there are then; default: if there is a collector (`engine.coverage`), which then has the counters."""
        self.json = source
        self._apart = apart
        self.traced = traced
        collector = COLLECTOR.value
        self.covered = collector is not None if covered is None else covered
        with _blame():
            self._build(use_cache)
        self.coverage: Int64Array = np.zeros(max(len(self.coverage_sites), 1), np.int64)
        if collector is not None and self.covered:
            self.coverage = collector.counts_of(source, self.coverage_sites)

    def _build(self, use_cache: bool) -> None:
        self.model: Model = load(self.json)
        self.slots: Slots = assign_slots(self.model)
        self.layout = Layout(self.model)
        self.phv_size: int = self.layout.size
        self.queue_places = queue_places(self.model, self.layout)
        self.max_header_bytes = max_header_bytes(self.model)
        self.digests: dict[int, DigestList] = digest_lists(self.model)
        self.max_digest_bytes = max((d.bytes for d in self.digests.values()), default=0)
        self._check_sizes()
        self._code = native.NativeCode(self._object(use_cache))
        self.parse_addr, self.ingress_addr, self.egress_addr = map(self._code.address, ("parse", "ingress", "egress"))
        self.deparse_addr, self.preserve_addr = map(self._code.address, ("deparse", "preserve"))
        self.digest_addr, self.prefetch_addr = map(self._code.address, ("digest", "prefetch"))
        second = ("ingress_deparse", "egress_parse") if self.model.architecture == PSA else ()
        self.ingress_deparse_addr, self.egress_parse_addr = map(self._code.address, second) if second else (0, 0)

    def _check_sizes(self) -> None:
        """Check that the loop has room for the program."""
        if self.phv_size > MAX_PHV_BYTES:
            raise refuse(f"its headers and metadata take {self.phv_size} bytes, the limit is {MAX_PHV_BYTES}")
        for what, size in (("deparser", self.max_header_bytes), ("digests", self.max_digest_bytes)):
            if size > MAX_HEADER_BYTES:
                raise refuse(f"its {what} may write {size} bytes, the limit is {MAX_HEADER_BYTES}")

    @classmethod
    def from_json(cls, source: Any, *, use_cache: bool = True, apart: native.CompileLimits | None = None) -> Program:
        """From a dict, a JSON text or the path of a JSON file. Raises `DetourError` naming the construct and its source
        line if the program needs what is not there."""
        document = read_json(source)
        with told_of(str(source)) if isinstance(source, Path) else nullcontext():
            return cls(document, use_cache=use_cache, apart=apart)

    def _object(self, use_cache: bool) -> bytes:
        """The object file. How its messages, records and counters are read is kept in front of it in the cache."""

        def make() -> bytes:
            text, readings = self._write()
            head = json.dumps(as_json(readings)).encode()
            return len(head).to_bytes(4, "little") + head + self._compile(text)

        if use_cache:
            key = json.dumps(self.json, sort_keys=True).encode() + (b"traced" if self.traced else b"")
            key += b"covered" if self.covered else b""
            data = native.cached(native.cache_name(key), make)
        else:
            data = make()
        size = 4 + int.from_bytes(data[:4], "little")
        self.log_formats, self.trace_forms, self.coverage_sites = from_json(_Readings, json.loads(data[4:size]))
        return data[size:]

    def _compile(self, text: str) -> bytes:
        return native.compile_ir(text) if self._apart is None else native.compile_apart(text, self._apart)

    def _write(self) -> tuple[str, _Readings]:
        """The program's IR, and how to read what it leaves."""
        cover = SiteWriter(TRACED_COVERAGE if self.traced else COVERAGE) if self.covered else None
        program = context.CompilationUnit(self.model, self.layout, self.slots, Module(), cover=cover)
        forms: list[TraceForm] = []
        if self.traced:
            tracer = RecordWriter(program.module)
            write_traced(program, tracer)
            forms = tracer.forms
        else:
            write_parser(program)
            write_pipeline(program, "ingress")
            write_pipeline(program, "egress")
            write_deparser(program)
            write_preserve(program)
            write_digest(program)
            write_prefetch(program)
        if self.model.architecture == PSA:  # never traced: what they do shows in the packet that egress gets
            write_ingress_deparser(program)
            write_parser(program, EGRESS_PARSER)
        sites = cover.sites if cover else []
        return program.module.text(), (tuple(program.log_formats), tuple(forms), tuple(sites))

    def ir(self) -> str:
        """The IR before optimisation, to look at."""
        return self._write()[0]


# Metadata fields by which a program and the traffic manager speak of trimming and of the order in queues, known by
# name and width (docs/traffic-manager.md). Each group is there as a whole or not at all.
_QUEUE_FIELDS = ({"trim_to": 16, "trim_priority": 3, "trimmed": 16}, {"queue_rank": 48})


def queue_places(model: Model, layout: Layout) -> dict[str, int]:
    """Offsets of the fields in the PHV; 0: the program lacks the field, or another one of its group."""
    bits = {name: width for group in _QUEUE_FIELDS for name, width in group.items()}
    places: dict[str, int] = {}
    for header in model.headers.values():
        for field in header.type.fields if header.metadata else ():
            struct, _, name = field.name.rpartition(".")
            if struct and bits.get(name) == field.bits:
                places[name] = layout.place(header, field).offset
    lacking = [name for group in _QUEUE_FIELDS if group.keys() - places.keys() for name in group]
    return places | dict.fromkeys(lacking, 0)
