# SPDX-License-Identifier: Apache-2.0
"""The engine: a P4 target that makes native code of BMv2 JSON and runs it in real or in virtual time."""

__all__ = [
    "bmv2api", "buffers", "capture", "clock", "compiler", "coverage", "endpoint", "jitter", "loop", "network",
    "p4runtime", "phv", "sockets", "state", "switch", "tables", "trace", "warm", "wiring", "workers",
]  # fmt: skip
