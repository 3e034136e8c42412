# SPDX-License-Identifier: Apache-2.0
"""P4_16 compiler: source to BMv2 JSON and P4Info.

Passes, each a module or subpackage: `preprocess`, `lexer`, `parser` (to `syntax`), `check` (to `core`, the typed
program), `lower` (to `ir`, what BMv2 executes), `bmv2` (JSON), `p4info`.
"""

__all__ = ["build", "compile", "messages", "p4info", "preprocess"]
