# SPDX-License-Identifier: Apache-2.0
"""Random well-typed P4_16 programs for v1model, in the manner of p4c's p4smith. The same seed gives the same program.

What a program reads is defined: variables are initialized, fields are those of valid headers, divisors are not zero.
At the end of egress everything that it has computed goes into a header of the packet. `python -m
tests.differential.random_programs SEED` prints one.

p4c 1.2.5.16 takes what the only case of a `switch` without `default` assigns for assigned always, runs a loop in a
control once, and does not take `for ... in`. Every fourth program has these; p4c gets it in other words (`for_p4c`).

Some of the language is left out, since there is nothing to compare with:
- p4c does not copy arguments out on an `exit` in an action that an action calls;
- it divides by constants only, and takes `_` for 0 .. 0xffff where a range of 48 bits is matched;
- BMv2 ends at a field of type `int<1>`, and takes the bits that fill a key up to whole bytes for a part of its prefix.
"""

from tests.differential.random_programs.program import Program, for_p4c, write_programs

__all__ = ["Program", "for_p4c", "write_programs"]
