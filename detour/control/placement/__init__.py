# SPDX-License-Identifier: Apache-2.0
"""Path placement for AI back ends (SRv6 path placement paper, section III): jobs in, one uSID list a flow out.

`jobs` turns job files into flows, `place.place` gives each a path, `ecmp` says what hashing would have done with the
same flows, `bound` what no placement can beat. All of it is pure: no switch is talked to.
"""

__all__ = ["jobs", "nccl", "network", "place", "placement", "repair", "report", "training"]
