# SPDX-License-Identifier: Apache-2.0
"""Packet tests of fabric.p4 in the manner of PTF, one body for the engine and for BMv2."""
