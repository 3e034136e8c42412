# SPDX-License-Identifier: Apache-2.0
"""Job files (YAML or JSON) and the flows that their collectives consist of (section II-A of the paper).

    jobs:
      - name: train                  # default: job0, job1...
        collective: ring-all-reduce  # or tree, double-tree, all-to-all, all-gather, reduce-scatter, or of `training`
        hosts: h0-h63                # or [h5, h0, h8-h15], in the order of the ring; or all
        connections: 2               # queue pairs for each pair of hosts (default 1)
        bytes: 64000000              # that each of its flows carries; all jobs give this or none
        shuffle: 7                   # the hosts in a random order with this seed, as a busy cluster allots them
        compute: 2ms                 # this and `reduce`, `iterations`, `start`: for a run, not for a placement
      - name: checkpoint
        collective: point-to-point
        pairs:
          - [h0, h9]
          - {from: h1, to: h10, path: [s0, s8, s2]}   # this one stays where it is

All flows of all jobs count as simultaneous: that is what synchronous training does, and the worst case otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as File
from typing import Any

import numpy as np

from detour.base.arrays import Int32Array, Int64Array
from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.plugins import near
from detour.base.quantities import bytes_of, whole_number_of
from detour.control.placement.training import LAYOUTS, SHAPE_KEYS, layout_of
from detour.topo import Topology
from detour.topo.paths import SwitchPath, parse_stop, path_usids

MAX_FLOWS = 1 << 22  # all-to-all of 2,048 hosts; memory and time are linear in it

MAX_BYTES = 10**12  # of a flow

MAX_TOTAL_BYTES = 1 << 53  # of all flows: what links carry is added up exactly

_COMMON = {"name", "collective", "connections", "bytes", "compute", "reduce", "iterations", "start"}
_EVERY_KEY = _COMMON.union({"hosts", "shuffle", "pairs"}, *LAYOUTS.values())
_COUNTS = {"connections", "shuffle", "iterations", "group", *SHAPE_KEYS} - {"skew"}


@dataclass(frozen=True)
class FlowSet:
    """Flows as arrays, one element each. `job` indexes `names`; `pinned`: flow -> the path that its job demands;
    `bytes`: what each carries, None if the jobs do not say."""

    source: Int32Array
    target: Int32Array
    job: Int32Array
    names: tuple[str, ...]
    pinned: dict[int, SwitchPath] = field(default_factory=dict)
    bytes: Int64Array | None = None

    def __post_init__(self) -> None:
        if self.bytes is not None and (total := sum(self.bytes.tolist())) > MAX_TOTAL_BYTES:
            raise DetourError(f"flows carry {total} bytes in all; the maximum is {MAX_TOTAL_BYTES}")

    @cached_property
    def size(self) -> Int64Array:
        """(flows,) what a flow counts on a link: its bytes, or 1."""
        return np.ones(len(self), np.int64) if self.bytes is None else self.bytes

    @property
    def unit(self) -> str:
        """The unit of `size`."""
        return "flows" if self.bytes is None else "bytes"

    def __len__(self) -> int:
        return len(self.source)

    def name(self, flow: int, topology: Topology) -> str:
        """`train: h0 to h1`, for messages."""
        a, b = topology.hosts[self.source[flow]].name, topology.hosts[self.target[flow]].name
        return f"{self.names[self.job[flow]]}: {a} to {b}"


_Pairs = Int32Array


def ring(hosts: _Pairs) -> _Pairs:
    """(n, 2): every host sends to the next one, as in every step of ring all-reduce, all-gather, reduce-scatter."""
    return np.stack([hosts, np.roll(hosts, -1)], axis=1)


def tree(hosts: _Pairs) -> _Pairs:
    """(2n - 2, 2): every host to its parent in the binary tree (reduce), every parent to its children (broadcast)."""
    children = np.arange(1, len(hosts))
    parents = (children - 1) // 2
    up = np.stack([hosts[children], hosts[parents]], axis=1)
    return np.concatenate([up, up[:, ::-1]])


def all_to_all(hosts: _Pairs) -> _Pairs:
    """(n * (n - 1), 2): every host to every other one."""
    a, b = np.meshgrid(hosts, hosts, indexing="ij")
    return np.stack([a[a != b], b[a != b]], axis=1)


COLLECTIVES: dict[str, Callable[[_Pairs], _Pairs]] = {
    "ring-all-reduce": ring, "tree": tree, "all-to-all": all_to_all, "all-gather": ring, "reduce-scatter": ring,
}  # fmt: skip
POINT_TO_POINT = "point-to-point"


def read_jobs(file: File, topology: Topology) -> FlowSet:
    """The flows of a job file. Raises `DetourError`: it cannot be read, is malformed, or names hosts or paths that the
    topology does not have."""
    text = read_text(file)
    try:
        return flows_of(parse_text(text), topology)
    except DetourError as error:
        raise DetourError(f"job file {file}: {error}") from None


def job_documents(file: File) -> list[dict[str, Any]]:
    """The jobs of a file that `read_jobs` has accepted, as they are written, in its order. Raises `DetourError`: it
    cannot be read any more."""
    document = parse_text(read_text(file))
    return document["jobs"] if isinstance(document, dict) else document


def parse_text(text: str) -> Any:
    """Parse YAML or JSON. Raises `DetourError`, with the line: it is neither."""
    from detour.base.documents import read_document  # YAML takes as long to load as all else here

    document = read_document(text)
    try:
        return _with_numbers(document)
    except (RecursionError, ValueError):
        raise DetourError("this is neither YAML nor JSON") from None


def _with_numbers(document: Any) -> Any:
    """Numbers that are written as `1e6` or `4MB`, which are texts to YAML; what is none stays as it is."""
    if isinstance(document, list):
        return [_with_numbers(each) for each in document]
    if not isinstance(document, dict):
        return document
    values = {key: _with_numbers(value) for key, value in document.items()}
    for key, value in values.items():
        with suppress(DetourError):
            if isinstance(value, str) and str(key).endswith("bytes"):
                values[key] = bytes_of(value, 0)
            elif isinstance(value, str) and key in _COUNTS:
                values[key] = whole_number_of(value, MAX_BYTES, 0)
    return values


def flows_of(document: Any, topology: Topology) -> FlowSet:
    """The flows of a parsed job file. Raises `DetourError`: what is wrong, and in which job."""
    jobs = document.get("jobs") if isinstance(document, dict) else document
    if isinstance(document, dict) and (extra := set(document) - {"jobs"}):
        if {"schema", "nodes"} <= extra:
            raise DetourError("this is an execution trace of PyTorch; chakra_converter makes a Chakra trace of it")
        raise DetourError(f"{_listed(extra)}: the only other key is `jobs`")
    if not isinstance(jobs, list) or not jobs:
        raise DetourError("there is no list `jobs` with at least one job")
    parts: list[_Pairs] = []
    sizes: list[Int64Array | None] = []
    names: list[str] = []
    pinned: dict[int, SwitchPath] = {}
    total = 0
    for number, job in enumerate(jobs):
        name = _name(job, number)
        if name in names:
            raise DetourError(f"job {name}: the name appears twice")
        try:
            pairs, paths, size = _job(job, topology)
        except DetourError as error:
            raise DetourError(f"job {name}: {error}") from None
        pinned |= {total + place: path for place, path in paths.items()}
        total += len(pairs)
        if total > MAX_FLOWS:
            raise DetourError(f"job {name}: more than {MAX_FLOWS} flows in all")
        names.append(name)
        parts.append(pairs)
        sizes.append(size)
    pairs = np.concatenate(parts)
    job_of = np.repeat(np.arange(len(parts), dtype=np.int32), [len(part) for part in parts])
    return FlowSet(pairs[:, 0].copy(), pairs[:, 1].copy(), job_of, tuple(names), pinned, _bytes(sizes, names))


def _bytes(sizes: list[Int64Array | None], names: list[str]) -> Int64Array | None:
    """(flows,) what each flow carries, None if no job says so."""
    given = [size for size in sizes if size is not None]
    if not given:
        return None
    if len(given) < len(names):
        name = names[next(k for k, size in enumerate(sizes) if size is None)]
        raise DetourError(f"job {name}: there is no `bytes`, but other jobs say what their flows carry")
    return np.concatenate(given)


def _size(job: dict[Any, Any], flows: int) -> Int64Array | None:
    """(flows,) of a job in which all are alike."""
    value = job.get("bytes")
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= MAX_BYTES:
        raise DetourError(f"bytes is {value!r}; it must be a whole number from 1 to {MAX_BYTES}")
    return np.full(flows, value, np.int64)


def _name(job: Any, number: int) -> str:
    if not isinstance(job, dict):
        raise DetourError(f"job number {number + 1} is not a mapping with `collective` and `hosts`")
    name = job.get("name", f"job{number}")
    if not isinstance(name, str) or not name.strip() or len(name) > 80 or not name.isprintable():
        raise DetourError(f"job number {number + 1}: its name must be a string of 1 to 80 characters")
    return name


_JobFlows = tuple[_Pairs, dict[int, SwitchPath], Int64Array | None]
"""(flows, 2) pairs of hosts, the paths that are demanded, and what each flow carries (None: nobody says)"""


def _job(job: dict[Any, Any], topology: Topology) -> _JobFlows:
    if extra := set(job) - _EVERY_KEY:
        raise DetourError(f"{_listed(extra)}; {near(str(min(extra, key=str)), sorted(_EVERY_KEY))}")
    kind = job.get("collective")
    if not isinstance(kind, str) or kind not in (*COLLECTIVES, *LAYOUTS, POINT_TO_POINT):
        known = ", ".join((*COLLECTIVES, *LAYOUTS))
        raise DetourError(f"there is no collective {kind!r}; allowed: {known}, {POINT_TO_POINT}")
    needed = "pairs" if kind == POINT_TO_POINT else "hosts"
    allowed = _COMMON | ({"pairs"} if kind == POINT_TO_POINT else {"hosts", "shuffle"})
    if kind in LAYOUTS:
        allowed = allowed - {"connections", "bytes"} | LAYOUTS[kind]
    if extra := set(job) - allowed:
        raise DetourError(f"{_listed(extra)}; allowed: {', '.join(sorted(allowed))}")
    if needed not in job:
        raise DetourError(f"{kind} needs `{needed}`")
    times = job.get("connections", 1)
    if type(times) is not int or not 1 <= times <= 1024:
        raise DetourError(f"connections is {times!r}; it must be a whole number from 1 to 1024")
    if kind == POINT_TO_POINT:
        pairs, paths = _elephants(job["pairs"], times, topology)
        return pairs, paths, _size(job, len(pairs))
    hosts = job_hosts(job, topology)
    if kind in LAYOUTS:
        flows = list(layout_of(job, len(hosts)).flows())
        if not flows:
            raise DetourError(f"{kind} sends nothing between hosts")
        ends = hosts[np.array([(flow.source, flow.target) for flow in flows])]
        return ends, {}, np.array([flow.bytes for flow in flows], np.int64)
    count = len(hosts) * (len(hosts) - 1 if kind == "all-to-all" else 2) * times
    if count > MAX_FLOWS:
        raise DetourError(f"{count} flows; expected at most {MAX_FLOWS}")
    pairs = np.repeat(COLLECTIVES[kind](hosts), times, axis=0)
    return pairs, {}, _size(job, len(pairs))


def _listed(keys: set[Any]) -> str:
    return "unknown key " + ", ".join(f"`{key}`" for key in sorted(map(str, keys)))


def job_hosts(job: dict[Any, Any], topology: Topology) -> Int32Array:
    """(ranks,) the hosts of a job that is not a point-to-point one, by rank. Raises `DetourError`: what is wrong."""
    return _shuffled(_hosts(job["hosts"], topology), job.get("shuffle"))


def _hosts(value: Any, topology: Topology) -> _Pairs:
    """Indices in the order given; two at least, each once."""
    if value == "all":
        indices = [host.index for host in topology.hosts]
    else:
        indices = [index for part in _texts(value, "hosts") for index in _range(part, topology)]
    if len(indices) < 2:
        raise DetourError("a collective needs at least two hosts")
    if len(set(indices)) != len(indices):
        twice = next(index for place, index in enumerate(indices) if index in indices[:place])
        raise DetourError(f"{topology.hosts[twice].name} appears twice")
    return np.array(indices, np.int32)


def _shuffled(hosts: _Pairs, seed: Any) -> _Pairs:
    if seed is None:
        return hosts
    if type(seed) is not int or seed < 0:
        raise DetourError(f"shuffle is {seed!r}; it must be a whole number of at least 0")
    return np.random.default_rng(seed).permutation(hosts)


def _texts(value: Any, what: str) -> Sequence[str]:
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        raise DetourError(f"{what} is {value!r:.60}; expected a list of names, like [h0, h4-h7], or all")
    return parts


def _range(text: str, topology: Topology) -> Iterator[int]:
    """A host, or `h0-h7`; names may contain hyphens themselves."""
    low, high = topology.finder.host_range(text)
    if high < low:
        raise DetourError(f"{text}: the range runs backwards")
    yield from range(low, high + 1)


def _elephants(value: Any, times: int, topology: Topology) -> tuple[_Pairs, dict[int, SwitchPath]]:
    if not isinstance(value, list) or not value:
        raise DetourError("`pairs` is not a list of pairs like [h0, h9]")
    pairs: list[tuple[int, int]] = []
    paths: dict[int, SwitchPath] = {}
    for entry in value:
        pair, path = _elephant(entry, topology)
        for _ in range(times):
            if path is not None:
                paths[len(pairs)] = path
            pairs.append(pair)
    return np.array(pairs, np.int32), paths


def _elephant(entry: Any, topology: Topology) -> tuple[tuple[int, int], SwitchPath | None]:
    names: Any = None
    if isinstance(entry, dict) and {"from", "to"} <= set(entry) <= {"from", "to", "path"}:
        ends, names = [entry["from"], entry["to"]], entry.get("path")
    else:
        ends = entry
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        raise DetourError(f"{entry!r:.60} is not a pair like [h0, h9] or {{from: h0, to: h9, path: [s0, s8, s2]}}")
    a, b = topology.host(ends[0]), topology.host(ends[1])
    if a == b:
        raise DetourError(f"{ends[0]} would send to itself")
    if names is None:
        return (a.index, b.index), None
    names = _texts(names, "path")
    path = tuple(parse_stop(topology, name) for name in names)
    if path[0] != a.switch:
        raise DetourError(f"a path from {a.name} begins at {topology.switches[a.switch].name}, not at {names[0]}")
    path_usids(topology, path, b)
    return (a.index, b.index), path
