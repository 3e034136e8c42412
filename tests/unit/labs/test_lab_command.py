# SPDX-License-Identifier: Apache-2.0
"""`detour sim --lab` and `detour up --lab` as commands: documents, and what is refused in one line."""

from __future__ import annotations



