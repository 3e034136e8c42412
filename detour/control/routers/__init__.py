# SPDX-License-Identifier: Apache-2.0
"""Configuration of other people's routers from a plan and a placement: FRR with containerlab, SONiC, Linux, P4Runtime.

`nodes` says what routers and hosts hold, whatever their system; the other modules write it down. All of it is pure:
`PLACEMENT_FORMATS` has a function for each format that returns texts by the names of their files.
"""

from detour.control.routers.export import PLACEMENT_FORMATS, document

__all__ = ["PLACEMENT_FORMATS", "document"]
