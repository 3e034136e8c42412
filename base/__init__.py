# SPDX-License-Identifier: Apache-2.0
"""What every room may use and what uses no room: errors, units, the JIT's settings, folders."""
