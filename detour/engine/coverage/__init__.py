# SPDX-License-Identifier: Apache-2.0
"""What of P4 programs packets have reached: collected, kept in files, merged and shown (docs/coverage.md)."""

__all__ = ["document", "exceptions", "guards", "reports", "sources"]
