# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a running fabric."""

__all__ = ["packet_tracing", "path_placement", "registry", "results", "session"]
