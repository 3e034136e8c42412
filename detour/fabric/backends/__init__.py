# SPDX-License-Identifier: Apache-2.0
"""What a fabric runs on: the engine in real time, simple_switch_grpc, the engine in virtual time."""

__all__ = ["base", "bmv2", "clock", "engine", "network", "serving", "settings", "targets", "virtual"]
