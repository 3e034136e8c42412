# SPDX-License-Identifier: Apache-2.0
"""Records of connections, links and partitions for steady phases that are skipped, as native code has them.

A *look* is a moment between two slices of the loop; they are `every_ps` apart while something may change.
"""

from __future__ import annotations

from detour.base.chain import Chain
from detour.base.jit import inner
from detour.base.pointers import record_by_address, row_of_table
from detour.base.structs import Float64, Int64, NativeRecord
from detour.engine.loop.suspension import FrameTable
from detour.hosts.suspension import AnswerTable, TimeFields

NONE = -1
FREE, AWAKE, ASLEEP = 0, 1, 2
"""states of a partition; a row of the table is free, or in use"""
MEMORIES = 8
"""partitions that a connection remembers"""
CONTEXTS = 64
"""rows of contexts that a connection has (`carried`)"""
DEPTH = 256
"""steps for which a link's queue is known (`fluid`)"""
HALF, SLOW_HALF, LINE_HALF = 8, 80, 3
"""looks in a half of the time looked back on; where senders have a rate, which timers change; of one that shares no
link"""


class Flow(NativeRecord):
    """A connection. Rows of QPs and hosts; its links are `links` rows from `first_hop` on, first those of its data,
    then those of the answers."""

    sender: Int64
    receiver: Int64
    source: Int64
    target: Int64
    nic: Int64  # of the source
    busy: Int64  # something is left of a message
    changed: Int64  # it has become busy, or is not any more, since the last look
    first_hop: Int64  # -1: its links are not known
    data_hops: Int64
    hops: Int64
    delay_ps: Int64  # of all links, there and back; of one that sprays, of its longest path
    sprays: Int64  # its packets take several paths; its links are those of all of them
    weighted: Int64  # they have weights
    part: Int64
    next: Int64  # of its partition; -1: it is the last one
    key: Int64  # a random number; those of a partition's connections combined tell it from others
    memory: Int64  # the row that it has of its partition, if that is known
    oldest: Int64  # of its rows: which one is overwritten next
    noted: Int64  # packets that were acknowledged when its partition last noted them
    seen: Int64  # the same when its partition last compared halves
    before: Float64  # packets in the half that ended then
    differs: Int64  # it sprays and differs from others, and not by chance
    learnt: Int64  # packets that it sent in its first looks (`carried`), and how many these are
    looks: Int64
    context: Int64  # row of what it has learnt of those that share its links now
    rate: Float64  # packets a ps in the long run
    # scratch: what it has sent in the last half; the connection that stands for those that are alike, and of
    # that what these have sent in each half, how many they are, and what each of them may send at most
    own: Float64
    group: Int64
    load: Float64  # of one that sprays: shares of links, each times what all others have of it
    early: Float64
    late: Float64
    members: Int64
    most: Float64
    # while it is suspended: its window, packets that links have counted so far, and, a packet, marks, ticks in queues,
    # and samples of these
    window: Float64
    begun_ps: Int64  # since when
    # of one whose rate changes meanwhile (`fluid`), or whose messages end (`ends`): packets so far that its host has
    # not counted, how many there may be, the time of the next one
    gained: Float64
    left: Float64  # of its message, packets that have not arrived (`ends`)
    sent: Float64  # in a step, and what waits of it in the network
    flying: Float64
    spare: Int64
    pace_next: Int64
    loads: Float64  # packets a ps whose answers are missing
    counted: Int64
    marks: Float64
    queued: Float64
    samples: Float64


class Hop(NativeRecord):
    """A link of a connection's: its channel, and the port or NIC that sends on it (-1: the other one does). `left`: for
    how long that port or NIC sends on, when the connection is suspended. `share`: of its packets that take the link."""

    channel: Int64
    port: Int64
    nic: Int64
    left: Int64
    share: Float64
    queue: Float64  # packets of the connection that wait there (`fluid`)


class Link(NativeRecord):
    """A channel. `part`: whose data it carries; `load_bps`: of answers that are not sent, as their connections are
    suspended. The others are scratch: what its connections send, and how many of them there are."""

    part: Int64
    delay_ps: Int64
    rate_bps: Int64
    load_bps: Int64
    used_bps: Float64
    users: Float64
    group: Int64
    crowd: Int64  # their keys combined
    mark: Int64  # the others are of this partition now if it is the state's
    # as a fluid (`fluid`), packets and ps: what waits at `step`, how long, what part of it passes; what waits in the
    # switch behind it of that which came by it, how much of this in shared memory, and whether it is paused by that,
    # a bit for each step
    step: Int64
    queue: Float64
    waits: Float64
    passes: Float64
    held: Float64
    fresh: Float64  # of that, what came in this step
    buffer: Int64  # of the switch, if that pauses anybody; else -1
    shared: Float64
    frozen: Float64  # the same when the jump began
    pauses: Int64
    # of a NIC: what it sends in a step, what of it is left, what a connection may have of it, what all together have,
    # and how many would have more
    most: Float64
    turn: Float64
    wanted: Float64
    behind: Float64
    left: Float64


class Queue(NativeRecord):
    """The bytes that wait at a link at a step (`fluid`); step k in row k modulo `DEPTH`."""

    packets: Float64


class SharedBuffer(NativeRecord):
    """The memory of a switch. `added`: what suspended partitions have of it, packets, beside what they had when their
    jumps began (`fluid`)."""

    added: Float64


class Look(NativeRecord):
    """A connection at a look: packets acknowledged, the last one when, the sum of what was in flight at the looks so
    far, and losses."""

    acked: Int64
    at: Int64  # ps
    flying: Int64
    trouble: Int64


class Memory(NativeRecord):
    """The state that a connection had in a steady partition: its rate, packets a ps, and packets in flight; and for
    how long the rate counts from now on."""

    key: Int64  # of the partition; 0: nothing is remembered
    times: Int64  # how often it was found; the others are means of these
    rate: Float64
    flying: Float64
    left_ps: Int64


class Context(NativeRecord):
    """The packets that a connection sent while the same others were on its links, and in how many looks."""

    key: Int64  # of those on each of its links; 0: none
    packets: Int64
    looks: Int64


class Partition(NativeRecord):
    """Busy connections that share links."""

    state: Int64
    first: Int64  # connection
    flows: Int64  # how many
    since: Int64  # the look from which on it is as it is
    half: Int64  # looks in a half of the time that it is looked back on
    refused: Int64  # attempts to suspend it that found something unexpected
    key: Int64  # of its connections; 0: not known yet
    known: Int64  # all of them remember it
    noted: Int64  # the look at which packets were noted; -1: none
    means: Int64  # how often they were
    compared: Int64  # the look at which halves were last compared; -1: none
    halves: Int64  # how many there were
    formed: Int64  # the look at which it became what it is
    placed: Int64  # its connections know their contexts
    by_chance: Int64  # its connections spray and differ by chance only
    begun_ps: Int64  # of the jump
    fluid_ps: Int64  # until when its rates have been found, where they change; -1: they do not
    covers: Int64  # messages end while it is suspended (`ends`)
    check_ps: Int64  # when all must know their rates; 0: they do
    moved_ps: Int64  # until when what its connections have sent has been counted then
    until_ps: Int64
    frames: Chain
    answers: Chain


class State(NativeRecord):
    """Addresses of tables, and what there is once."""

    loop: Int64  # globals
    hosts: Int64
    flows: Int64
    hops: Int64
    links: Int64
    parts: Int64
    looks: Int64
    memories: Int64
    contexts: Int64
    queues: Int64
    buffers: Int64
    count: Int64  # of connections
    most: Int64  # rows of partitions that were ever used
    awake: Int64  # how many are
    asleep: Int64
    host_count: Int64
    look: Int64
    half: Int64  # looks in a half, unless a connection is alone
    paced: Int64  # senders have a rate, and timers that change it
    fluid: Int64  # rates change in jumps (`fluid`)
    covers: Int64  # messages may end in jumps (`ends`): no switch has pauses, so that frames may vanish
    depth: Int64  # looks that are kept, look k in row k modulo that
    every_ps: Int64
    mark: Int64  # the last one that was given to links
    wire: Int64  # bytes of a data frame, and what it takes on a link beside them
    overhead: Int64
    answer: Int64  # bytes of one
    error: Float64
    skipped: Int64  # packets
    mark_from: Float64  # packets that wait: marks begin, always come, and a packet's probability by each between
    mark_all: Float64
    mark_slope: Float64
    rng: Int64
    frames: FrameTable
    kept: AnswerTable
    control_times: TimeFields
    no_times: TimeFields
    path_times: TimeFields


state_at = record_by_address(State)
flow_row = row_of_table(State, Flow, "flows")
hop_row = row_of_table(State, Hop, "hops")
link_row = row_of_table(State, Link, "links")
part_row = row_of_table(State, Partition, "parts")
look_row = row_of_table(State, Look, "looks")
queue_row = row_of_table(State, Queue, "queues")
buffer_row = row_of_table(State, SharedBuffer, "buffers")
context_row = row_of_table(State, Context, "contexts")
memory_row = row_of_table(State, Memory, "memories")


@inner(forceinline=True)
def row_ago(s: State, flow: int, ago: int) -> Look:
    """A connection some looks ago."""
    return look_row(s, (s.look - ago) % s.depth * s.count + flow)
