# SPDX-License-Identifier: Apache-2.0
"""The command language of simple_switch_CLI, on anything that has BMv2's runtime API.

`run_file(path, api)` is what others need; `interpreter` has the parts of it, a module a subject declares commands.
"""

from detour.engine.bmv2api.commands.interpreter import program_of, run_file

__all__ = ["errors", "interpreter", "program", "program_of", "registry", "run_file"]
