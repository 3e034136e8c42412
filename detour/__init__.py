# SPDX-License-Identifier: Apache-2.0
"""detour: a data-centre fabric that fits on a laptop and in which the sender picks the path."""

__version__ = "0.1.0"
