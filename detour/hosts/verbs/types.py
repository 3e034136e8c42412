# SPDX-License-Identifier: Apache-2.0
"""Arguments and results of verbs: flags, states, paths, work requests and completions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

from detour.base.errors import DetourError
from detour.hosts import state
from detour.topo.address import ipv6_text, usid_address


class AccessFlag(IntFlag):
    """Accesses that a memory region allows (ibv_access_flags)."""

    LOCAL_WRITE = state.ACCESS_LOCAL_WRITE
    REMOTE_WRITE = state.ACCESS_REMOTE_WRITE


class WCStatus(IntEnum):
    """ibv_wc_status"""

    SUCCESS = state.WC_SUCCESS
    LOC_PROT_ERR = state.WC_LOC_PROT_ERR
    WR_FLUSH_ERR = state.WC_WR_FLUSH_ERR
    REM_INV_REQ_ERR = state.WC_REM_INV_REQ_ERR
    REM_ACCESS_ERR = state.WC_REM_ACCESS_ERR
    REM_OP_ERR = state.WC_REM_OP_ERR
    RETRY_EXC_ERR = state.WC_RETRY_EXC_ERR


class WCOpcode(IntEnum):
    """ibv_wc_opcode"""

    RDMA_WRITE = state.WC_RDMA_WRITE
    RECV_RDMA_WITH_IMM = state.WC_RECV_RDMA_WITH_IMM


class QPState(IntEnum):
    """ibv_qp_state"""

    RESET = state.QPS_RESET
    RTS = state.QPS_RTS
    ERR = state.QPS_ERR


MAX_WEIGHT = 255


@dataclass(frozen=True)
class Path:
    """A way through the fabric: UDP source port (most significant bit: non-shortest) and, optionally, one to six
    uSIDs of which the last is the destination host's. `weight`: its share in a weighted set, 1 to 255."""

    sport: int = 0
    usids: tuple[int, ...] = ()
    weight: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.sport <= 0xFFFF:
            raise DetourError(f"source port {self.sport} must be 0 to 65535")
        if not 1 <= self.weight <= MAX_WEIGHT:
            raise DetourError(f"weight {self.weight} of a path must be 1 to {MAX_WEIGHT}")
        if self.usids:
            usid_address(self.usids)

    def __str__(self) -> str:
        return f"usid:{ipv6_text(usid_address(self.usids))}" if self.usids else f"sport:{self.sport:#06x}"


@dataclass(frozen=True)
class Endpoint:
    """The data that two QPs must exchange before they can talk; plain numbers and text, for JSON."""

    address: str
    qpn: int
    psn: int
    window: int
    transport: str = "lerp"
    reordering: bool = False


@dataclass(frozen=True)
class SGE:
    """Local buffer of a work request."""

    addr: int
    length: int
    lkey: int


@dataclass(frozen=True)
class SendWR:
    """An RDMA WRITE of the buffer `sge` to `remote_addr`; `imm_data`: 32 bits for the other side's CQ."""

    wr_id: int
    sge: SGE
    remote_addr: int
    rkey: int
    imm_data: int | None = None
    signaled: bool = True


@dataclass(frozen=True)
class WC:
    """Work completion. `byte_len` is the length of the message; `imm_data` only with RECV_RDMA_WITH_IMM, `posted_ps`
    only with RDMA_WRITE; times on the clock of whoever runs the host."""

    wr_id: int
    status: WCStatus
    opcode: WCOpcode
    byte_len: int
    qp_num: int
    imm_data: int | None = None
    posted_ps: int = 0
    done_ps: int = 0
