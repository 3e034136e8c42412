# SPDX-License-Identifier: Apache-2.0
"""Tests of our P4 that p4c's p4testgen makes."""
