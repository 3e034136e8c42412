# SPDX-License-Identifier: Apache-2.0
"""Fuzzing: packets, tables, BMv2 JSON and P4Runtime. `python -m tests.fuzz` runs for long, the tests in here shortly.

Every target runs in a child process, because a crash of native code is a finding and not the end of the suite. What
the child works on lies in a file that both processes have mapped, so that the parent can tell and keep it.
"""
