# SPDX-License-Identifier: Apache-2.0
"""Fabrics of the engine in virtual time, in this process."""
