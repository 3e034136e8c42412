# SPDX-License-Identifier: Apache-2.0
"""Other people's P4 labs, booted as they are: p4lang's tutorials, p4-utils, p4sim.

`model` is what a lab is, `reading` finds out in which format a folder holds one, a module for each format reads it,
`programs` finds or compiles P4, `entries` and `tables` fill switches, `boot` makes a network of it all.
"""

__all__ = [
    "boot", "entries", "folder", "model", "programs", "reading", "results", "running", "virtual",
    "workloads",
]  # fmt: skip
