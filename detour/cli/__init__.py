# SPDX-License-Identifier: Apache-2.0
"""The command `detour`: parses options, calls the rooms, prints. One module a group of commands."""

from detour.cli.app import main

__all__ = ["main"]
