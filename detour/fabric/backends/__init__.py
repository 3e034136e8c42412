# SPDX-License-Identifier: Apache-2.0
"""The backends of a fabric: the engine in real time, simple_switch_grpc, the engine in virtual time."""

__all__ = ["base", "bmv2", "clock", "engine", "network", "serving", "settings", "targets", "virtual"]
