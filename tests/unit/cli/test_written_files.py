# SPDX-License-Identifier: Apache-2.0
"""Options that name what is to be written: a folder that is missing is named before any work is done, by all alike."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour import cli
from detour.cli.parser import actions_of, commands_of, output_file, output_folder, output_path
from tests.full_disk import small_files

OPTIONS = {"--plot", "--out", "--store", "--write"}


def written(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, argparse.Action]]:
    """Every such option with the words of its command."""
    for name, below in commands_of(parser).items():
        yield from written(below, (*path, name))
    for action in actions_of(parser):
        if OPTIONS & set(action.option_strings):
            yield " ".join(path), action


WRITTEN = list(written(cli.make_parser()))


def test_there_are_such_options():
    assert len(WRITTEN) > 15
    assert {action.option_strings[0] for _, action in WRITTEN} == OPTIONS
    assert {action.type for _, action in WRITTEN} == {output_file, output_folder, output_path}


@pytest.mark.parametrize(("words", "action"), WRITTEN, ids=lambda value: value if isinstance(value, str) else "")
def test_a_missing_folder_is_named(words, action, tmp_path, capsys):
    option, missing = action.option_strings[0], tmp_path / "no"
    assert cli.main([*words.split(), option, str(missing / "such" / "file.png")]) == 2
    begin = f"detour: argument {option}: there is no folder {missing / 'such'} (try"
    assert capsys.readouterr().err.startswith(begin)
    assert not missing.exists()


def test_what_may_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert output_file("plot.png") == Path("plot.png")
    assert output_folder("new") == Path("new")
    assert output_folder(str(tmp_path)) == output_path(str(tmp_path)) == tmp_path
    assert output_path("plot.png") == Path("plot.png")
    (tmp_path / "file").touch()
    for check, text, says in (
        (output_file, str(tmp_path), f"{tmp_path} is a folder; expected a file"),
        (output_file, "file/plot.png", "file is not a folder"),
        (output_path, "file/plot.png", "file is not a folder"),
        (output_folder, "file", "file is not a folder"),
        (output_folder, "no/new", f"there is no folder {tmp_path / 'no'}"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=f"^{says}$"):
            check(text)


def test_a_file_that_finds_no_room(tmp_path, capsys):
    out = tmp_path / "links.csv"
    with small_files(100):
        assert cli.main(["fcplus", "build", "--n", "120", "--out", str(out)]) == 1
    assert capsys.readouterr() == ("", f"detour: {out} cannot be written: File too large\n")
    assert not list(tmp_path.iterdir())
