# SPDX-License-Identifier: Apache-2.0
"""Coverage of P4 programs by packets: collected, kept in files, merged and shown (docs/coverage.md)."""

__all__ = ["document", "exceptions", "reports", "sources"]
