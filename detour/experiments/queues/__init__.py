# SPDX-License-Identifier: Apache-2.0
"""The traffic manager beside queueing theory."""
