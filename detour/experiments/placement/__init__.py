# SPDX-License-Identifier: Apache-2.0
"""SRv6 path placement for AI back ends: a throttled link, and a flow that gets out of its way."""

__all__ = ["tables"]
