# SPDX-License-Identifier: Apache-2.0
"""Machines of GPUs and NICs, and what a GPU's part in communication costs.

A host of the topology is a NIC, machine by machine. GPUs of a machine share its NICs in equal parts, in order; what
goes from one GPU to another in the same machine takes the time of NVLink or PCIe and sends nothing over the fabric.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from detour.base.errors import DetourError
from detour.base.quantities import rate_bps_of, whole_number_of
from detour.base.times import US

_MOST_GPUS = 64
NVLINK_BPS = 3_600_000_000_000
"""of a GPU and direction: 450 GB/s, the fourth generation"""


@dataclass(frozen=True)
class Machine:
    """`gpus` and `nics` of a machine; `nvlink_bps`: between two of its GPUs, of each direction. `switched`: NVSwitches
    reduce in the network (NVLS). Raises DetourError: GPUs that cannot share NICs in equal parts."""

    gpus: int = 1
    nics: int = 1
    nvlink_bps: int = NVLINK_BPS
    switched: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.gpus <= _MOST_GPUS:
            raise DetourError(f"a machine of {self.gpus} GPUs; expected 1 to {_MOST_GPUS}")
        if not 1 <= self.nics <= self.gpus or self.gpus % self.nics:
            raise DetourError(f"a machine of {self.gpus} GPUs and {self.nics} NICs; GPUs must be a multiple of NICs")


def read_machine(text: str) -> Machine:
    """`gpus=8,nics=8,nvlink=3.6T`; `nics` are as many as GPUs, and `nvls=no` is without NVSwitches. Raises DetourError:
    it is none."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    values = {key: value for key, _, value in pairs}
    if unknown := set(values) - {"gpus", "nics", "nvlink", "nvls"}:
        raise DetourError(f"machine {text!r}: there is no {min(unknown)!r}; allowed: gpus, nics, nvlink, nvls")
    if values.get("nvls", "yes") not in ("yes", "no"):
        raise DetourError(f"machine {text!r}: nvls is {values['nvls']!r}; expected yes or no")
    gpus = whole_number_of(values.get("gpus", "1"), _MOST_GPUS)
    nics = whole_number_of(values.get("nics", str(gpus)), _MOST_GPUS)
    nvlink_bps = rate_bps_of(values["nvlink"]) if "nvlink" in values else NVLINK_BPS
    return Machine(gpus, nics, nvlink_bps, values.get("nvls") != "no")


@dataclass(frozen=True)
class HostCosts:
    """Time that GPUs and proxies take beside the network. `step_ps`: from data in the memory of a NIC's GPU until what
    follows from it is on its way, with protocol Simple: flush, flag, proxy; `channel_bps`: a channel's reduction and
    copy, `nvls_bps`: the same with NVSwitches: NCCL's tuner expects 41.4 and 57.7 GB/s at most of two channels of an
    H100 (perChMaxTreeBws, perChMaxNVLSTreeBws)."""

    step_ps: int = 19 * US
    channel_bps: int = 165_600_000_000
    nvls_bps: int = 230_800_000_000


@dataclass(frozen=True)
class Cluster:
    """Machines that take part, of equal kind, and the rate of their NICs. `ranks` count GPUs, machine by machine.
    Raises DetourError: GPUs that are no whole machines, or a single machine."""

    ranks: int
    machine: Machine = field(default_factory=Machine)
    nic_bps: int = 400_000_000_000
    costs: HostCosts = field(default_factory=HostCosts)

    def __post_init__(self) -> None:
        if self.ranks % self.machine.gpus or self.ranks == self.machine.gpus:
            raise DetourError(f"{self.ranks} GPUs; expected two or more whole machines of {self.machine.gpus}")

    @staticmethod
    def of_hosts(hosts: int, machine: Machine, nic_bps: int | None = None) -> Cluster:
        """The machines whose NICs are so many hosts. Raises DetourError: they are no whole machines."""
        if hosts % machine.nics:
            raise DetourError(f"{hosts} hosts are no whole machines of {machine.nics} NICs")
        return Cluster(hosts // machine.nics * machine.gpus, machine, nic_bps or Cluster.nic_bps)

    @property
    def machines(self) -> int:
        return self.ranks // self.machine.gpus

    @property
    def hosts(self) -> int:
        """Return how many hosts of the topology there must be."""
        return self.machines * self.machine.nics

    def nic_of(self, rank: int) -> int:
        """Return the number of a GPU's NIC in its machine."""
        return rank % self.machine.gpus * self.machine.nics // self.machine.gpus

    def host(self, machine: int, nic: int) -> int:
        """Return the host that a NIC is, counted among the cluster's."""
        return machine * self.machine.nics + nic

    def machine_of(self, rank: int) -> int:
        return rank // self.machine.gpus

    def rail(self, sender: int, receiver: int) -> tuple[int, int]:
        """The hosts by which a message leaves and comes: both on the receiver's rail."""
        nic = self.nic_of(receiver)
        return self.host(self.machine_of(sender), nic), self.host(self.machine_of(receiver), nic)
