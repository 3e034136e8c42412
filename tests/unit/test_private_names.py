# SPDX-License-Identifier: Apache-2.0
"""Private names of libraries: each library's in one module, and a message that says so when the library drops one."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re

import finsy
import pytest

from detour.base import places

PARSER, CLIENT = "detour/cli/parser.py", "detour/control/p4runtime/client.py"
USED = [
    (PARSER, argparse, "_SubParsersAction"),
    (PARSER, argparse._SubParsersAction, "_get_subactions"),
    (PARSER, argparse.ArgumentParser(), "_actions"),
    (PARSER, argparse.ArgumentParser(), "_option_string_actions"),
    (PARSER, argparse.ArgumentParser, "_check_value"),
    (PARSER, argparse.HelpFormatter, "_format_action"),
    (CLIENT, importlib.import_module("finsy.p4client"), "_DEFAULT_RPC_TIMEOUT"),
    (CLIENT, importlib.import_module("finsy.p4schema"), "_make_alias"),
    (CLIENT, importlib.import_module("finsy.p4schema"), "_parse_type_spec"),
]


@pytest.mark.parametrize(("module", "owner", "name"), USED, ids=lambda value: value if isinstance(value, str) else "")
def test_libraries_have_the_private_names_that_are_used(module: str, owner: object, name: str) -> None:
    assert hasattr(owner, name), f"{owner} has no {name} any more: {module} needs another way"


def test_finsy_has_its_client_where_it_is_looked_for() -> None:
    assert "self._p4client" in inspect.getsource(finsy.Switch.__init__), f"{CLIENT} needs another way to the client"


def test_only_these_modules_use_private_names_of_libraries() -> None:
    private = re.compile(r"\b(argparse|parser|_pytest|finsy(\.\w+)?|google[\w.]*)\._[a-zA-Z]|\._p4client\b")
    using = [path for path in places.modules() if private.search(path.read_text())]
    found = {path.relative_to(places.PACKAGE.parent).as_posix() for path in using}
    assert found == {module for module, _, _ in USED}
