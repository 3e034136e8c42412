# SPDX-License-Identifier: Apache-2.0
"""`detour bench`: speed of the engine, compared with BMv2 where it is installed."""

__all__ = ["durations", "report"]
