# SPDX-License-Identifier: Apache-2.0
"""What losses, reordering and contention cost a connection, by transport and congestion control."""
