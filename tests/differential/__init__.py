# SPDX-License-Identifier: Apache-2.0
"""The engine against reference switches: the same entries and packets, the same packets out."""
