# SPDX-License-Identifier: Apache-2.0
"""`detour bench`: how fast the engine is, beside BMv2 where that is installed."""

__all__ = ["durations", "report"]
