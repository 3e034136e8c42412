# SPDX-License-Identifier: Apache-2.0
"""From the typed program to what BMv2 executes.

One pass over the program from the blocks of the architecture down. Statements become blocks of primitives; calls of
controls, parsers and functions are inlined on the way; what is known of a value is kept along the way, so that
constants are folded and loops unrolled without further passes.
"""
