# SPDX-License-Identifier: Apache-2.0
"""The cost of losses, reordering and contention to a connection, by transport and congestion control."""
