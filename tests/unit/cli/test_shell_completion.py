# SPDX-License-Identifier: Apache-2.0
"""What shells offer for the command line."""

import shutil
import subprocess

import pytest

from detour import cli
from detour.cli.shell_completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_the_commands(capsys, shell):
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("reproduce", "capture", "fabrics", "switch"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["detour", "cap"], ["capture"]),
        (["detour", "up", "--ra"], ["--rate"]),
        (["detour", "reproduce", "nons"], ["nonshortest"]),
        (["detour", "up", "--target", "b"], ["bmv2"]),
    ],
)
def test_bash_completes(capsys, tmp_path, words, offered):
    assert cli.main(["completion", "bash"]) == 0
    script = tmp_path / "detour.bash"
    script.write_text(capsys.readouterr().out)
    ask = f"source {script}; compopt() {{ :; }}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
    done = subprocess.run(
        ["bash", "-c", ask + '_shtab_detour; echo "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == offered
