# SPDX-License-Identifier: Apache-2.0
"""What packets would do, told from the entries that switches hold."""

__all__ = ["dependencies", "trace", "verifier"]
