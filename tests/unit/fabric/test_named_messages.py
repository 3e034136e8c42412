# SPDX-License-Identifier: Apache-2.0
"""Messages that say which fabrics are up and how to ask for one; job files that say first what is wrong first."""

import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.control.placement.jobs import flows_of
from detour.fabric.daemon.state_dir import NAME_VARIABLE, StateDir, not_up
from detour.topo import parse_topology


def test_the_fabrics_that_are_up_are_named(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv(NAME_VARIABLE, raising=False)
    assert not_up() == "no fabric is up; `detour up --detach` starts one"
    left, unnamed = StateDir(tmp_path / "detour-left"), StateDir(tmp_path / "detour")
    left.lock()
    assert not_up() == "no fabric without a name is up; there is --name left"
    unnamed.lock()
    monkeypatch.setenv(NAME_VARIABLE, "right")
    assert not_up() == "no fabric called 'right' is up; there are --name left, one without a name"
    monkeypatch.setenv(NAME_VARIABLE, "left")
    with pytest.raises(DetourError, match="`detour down --name left` ends it"):
        StateDir(tmp_path / "detour-left").lock()
    left.release()
    unnamed.release()


def test_an_unknown_key_is_named_first():
    with pytest.raises(DetourError, match="unknown key `colective`; did you mean collective"):
        flows_of([{"colective": "tree", "hosts": "all"}], parse_topology("d1"))
    with pytest.raises(DetourError, match="unknown key `jobz`"):
        flows_of({"jobz": []}, parse_topology("d1"))


def test_job_gpt_wants_two_hosts_and_prints_what_runs_it(tmp_path, capsys):
    command = ["job", "gpt", "--params", "125e6", "--batch", "8", "--out", str(tmp_path / "a job.yaml")]
    assert cli.main(command) == 2
    assert "tp * pp * dp is 1: a single host sends nothing" in capsys.readouterr().err
    assert cli.main([*command, "--dp", "4"]) == 0
    printed = capsys.readouterr().out.splitlines()[-1]
    assert printed == f"detour place '{tmp_path}/a job.yaml' --topo leaf-spine:leaves=1,spines=4,hosts=4 --run"
