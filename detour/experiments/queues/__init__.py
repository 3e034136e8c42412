# SPDX-License-Identifier: Apache-2.0
"""The traffic manager compared with queueing theory."""
