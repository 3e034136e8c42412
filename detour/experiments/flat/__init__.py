# SPDX-License-Identifier: Apache-2.0
"""Flat fabrics compared at equal cost, packet by packet: RNG, PolarFly, Slim Fly, FC+, Xpander and trees; paths chosen
by senders or by switches. docs/flat-fabrics.md has the results."""

__all__ = ["page"]
