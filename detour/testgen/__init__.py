# SPDX-License-Identifier: Apache-2.0
"""Generated tests of P4 programs: symbolic execution with z3, checked on the engine (docs/test-generation.md).

The engine's compiler evaluates a program's expressions and primitives through `FunctionContext` and `Function`. Here
both have symbolic counterparts (`context`, `terms`), so the semantics of the language are written once.
"""

__all__ = ["check", "formats", "generate", "regress", "suggest"]
