# SPDX-License-Identifier: Apache-2.0
"""P4Info: the objects of a program that a controller sees, as P4Runtime's specification has them (section 6).

`build` makes the message, `entries` the `WriteRequest` with the entries of the source, `as_text` writes either.
Protobuf is imported with the modules of this package, so only when P4Info is asked for.
"""

from detour.p4.p4info.build import as_text, build
from detour.p4.p4info.entries import entries

__all__ = ["as_text", "build", "entries"]
