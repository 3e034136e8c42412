# SPDX-License-Identifier: Apache-2.0
"""The version of detour, which pyproject.toml reads here."""

VERSION = "0.1.0"
