# SPDX-License-Identifier: Apache-2.0
"""Non-Shortest Path Routing in Lossy Data Center Networks (Mizrahi et al.)."""

__all__ = ["settings"]
