# SPDX-License-Identifier: Apache-2.0
"""Operations on a running fabric."""

__all__ = ["packet_tracing", "path_placement", "registry", "results", "session"]
