# SPDX-License-Identifier: Apache-2.0
"""What every package may use and what uses no other: errors, units, the JIT's settings, folders."""
