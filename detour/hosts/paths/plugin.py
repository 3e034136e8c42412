# SPDX-License-Identifier: Apache-2.0
"""A path scheme as a plugin (`hosts.plugins`): who chooses among the candidate paths of a sender, and by what.

    @hook
    def choose(hs, i, q, p, s, news, now):
        s.turn += 1
        return s.turn % q.n_cand

    ROUND_ROBIN = PathScheme(None, {"turn": int}, (choose,), sprays=True)

A hook gets the tables `hs` (`hosts.rows`) and the QP's number in them `i`, the QP `q`, the parameters `p` (its own
and those of `HostConfig`), the fields `s` of its own, what it is about (`PathNews`) and the time in ps. A scheme that
`sprays` has `choose`; any other stays on a path until it calls `paths.move`.

| hook | is called when |
|---|---|
| `on_candidates` | the list of candidates is another one |
| `choose` | a packet goes out: returns its candidate |
| `on_new` | a new data packet is about to go out |
| `on_sent` | a data packet went out |
| `on_idle` | sending begins after an idle time longer than the retransmission timeout |
| `on_answer` | an answer about a data packet on `cand` came in; unless it sprays, of the current path |
| `on_lost` | a packet on `cand` was overtaken by a later one (schemes that spray) |
| `on_timeout` | the retransmission timeout has passed |
| `on_probe` | a PTM on `cand` was answered |
| `on_probe_sent` | PTM number `seq` leaves the host |
| `on_move` | the QP has left its path for candidate `q.cand` |
| `on_timer` | `q.path_timer` has passed |
| `on_silent` | `cand` is silent and others are not (schemes that spray); default: it is asked, and takes no data |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from detour.base.errors import DetourError
from detour.base.jit import inner
from detour.base.memory import load64
from detour.base.pointers import record_address, record_by_address
from detour.base.structs import Int64, NativeRecord
from detour.hosts import plugins
from detour.hosts.plugins import PACKET_AT, MakeEntry, Plugin, RecordType, hook_name
from detour.hosts.plugins import hook as hook
from detour.hosts.records import Config, QueuePair
from detour.hosts.rows import qp_row
from detour.hosts.state import Handle, hosts_at

PATH_HOOKS = (
    "on_candidates", "choose", "on_new", "on_sent", "on_idle", "on_answer", "on_lost", "on_timeout", "on_probe",
    "on_probe_sent", "on_move", "on_timer", "on_silent",
)  # fmt: skip
PATH_CANDIDATES, PATH_CHOOSE, PATH_NEW, PATH_SENT, PATH_IDLE, PATH_ANSWER = range(6)
PATH_LOST, PATH_TIMEOUT, PATH_PROBE, PATH_PROBE_SENT, PATH_MOVE, PATH_TIMER, PATH_SILENT = range(6, 13)


class PathNews(NativeRecord):
    """The information that a hook is given."""

    cand: Int64
    delay: Int64  # how long the packet waited in queues, ticks; -1: not known
    marked: Int64  # it came with a CE mark
    txn: Int64  # on_answer, not spraying: its place in the QP's order of transmissions; -1: not known
    congested: Int64  # on_lost: in a full queue, as far as the sender knows
    seq: Int64  # on_probe, on_probe_sent: number of the PTM


@dataclass(frozen=True)
class PathScheme(Plugin):
    """`sprays`: every packet has a path of its own (LERP only). `watches`: when nothing comes back, others are asked,
    and a path that alone is silent is left (`blackhole`). A fabric in virtual time gives it `ports` of these ways, or
    so many `equal_paths` where there are no detours; without hooks only one."""

    sprays: bool = False
    watches: bool = False
    ports: Literal["all", "shortest", "detours"] = "all"
    equal_paths: int = 32

    HOOKS: ClassVar[tuple[str, ...]] = PATH_HOOKS
    TAKES: ClassVar[tuple[str, ...]] = ("hs", "i", "q", "p", "s", "news", "now")
    NEWS: ClassVar[type[NativeRecord]] = PathNews
    LEAST_HOOKS: ClassVar[int] = 0
    OF_HOST: ClassVar[tuple[str, ...]] = Config.dtype.names or ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sprays and "choose" not in map(hook_name, self.hooks):
            raise DetourError("a path scheme that sprays needs the hook choose")


def qp_entries(kind: type[NativeRecord], returns: str) -> MakeEntry:
    """Make of a hook of queue pairs the function that is called by address: it makes records of addresses and calls
    the hook. `kind`: of the news; `returns`: the hook whose result is asked for."""
    news_at = record_by_address(kind)

    def entry_of(_hook: Any, records: tuple[RecordType, ...]) -> Any:
        parameters_at, fields_at, _ = map(record_by_address, records)

        def ask(row: int, tables: int, i: int, now: int) -> int:
            hs, parameters, news = (
                hosts_at(tables, 0),
                parameters_at(load64(load64(row)), 0),
                news_at(row + PACKET_AT, 0),
            )
            return _hook(hs, i, qp_row(hs, i), parameters, fields_at(row, 0), news, now)

        def tell(row: int, tables: int, i: int, now: int) -> int:
            hs, parameters, news = (
                hosts_at(tables, 0),
                parameters_at(load64(load64(row)), 0),
                news_at(row + PACKET_AT, 0),
            )
            _hook(hs, i, qp_row(hs, i), parameters, fields_at(row, 0), news, now)
            return 0

        return ask if hook_name(_hook) == returns else tell

    return entry_of


entry_of = qp_entries(PathNews, "choose")
_news_at = record_by_address(PathNews)

if TYPE_CHECKING:
    PathParameters = Config
else:

    class PathParameters:
        """A scheme's parameters extend it: its hooks are given those of the hosts as well."""


@inner
def news_of(q: QueuePair) -> PathNews:
    """The record that the next call of a hook is about; only if `has`."""
    return _news_at(q.path_row + PACKET_AT, 0)


@inner
def call(hs: Handle, i: int, q: QueuePair, which: int, now: int) -> int:
    """Call a hook of the QP's scheme, if it has that; return what `choose` does."""
    return plugins.call(q.path_row, record_address(hs), i, which, now) if q.path_row != 0 else 0


@inner
def has(q: QueuePair, which: int) -> bool:
    """Return whether the QP's scheme has a hook."""
    return q.path_row != 0 and plugins.has(q.path_row, which)
