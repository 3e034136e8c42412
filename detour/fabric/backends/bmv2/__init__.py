# SPDX-License-Identifier: Apache-2.0
"""Fabrics of simple_switch_grpc processes, with hosts in network namespaces."""

__all__ = ["fabric", "switch"]
