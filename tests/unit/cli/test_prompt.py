# SPDX-License-Identifier: Apache-2.0
"""The prompt after the demo: carries out commands, prints what is wrong, and stays."""

import io
import os
import pty
import select
import shutil
import subprocess
import sys
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.console import Console

from detour import cli
from detour.base.errors import DetourError
from detour.base.records import from_json
from detour.cli.prompt import ASKING_GROUPS, CommandCompleter, Prompt, of_topology
from detour.cli.shell_completion import SHELLS
from detour.fabric.operations.registry import OPERATIONS
from detour.topo import parse_topology
from tests.unit.cli.test_command_line import ANSWERS
from tests.waiting import PATIENCE_S


class FakeSession:
    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.topology = parse_topology("leaf-spine:leaves=2,spines=2,hosts=2")

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **more: Any) -> Any:
            more.pop("progress", None)
            self.calls.append((name, arguments, more))
            if "h99" in (*arguments, *more.values()):
                raise DetourError("host 'h99': d1 has h0 to h71")
            return from_json(OPERATIONS[name].result, ANSWERS[name])

        return call


@pytest.fixture
def prompt() -> tuple[Prompt, FakeSession, io.StringIO]:
    session, text = FakeSession(), io.StringIO()
    return Prompt(session, Console(file=text, width=150)), session, text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("send h0 h71 --bytes 2k --sport 0x8001", "send"), ("send h0 h71", "send"), ("probe h0 h71", "probe"),
        ("path h0 h71 --usid s1", "path"), ("fail s0-s1", "fail"), ("heal", "heal"), ("heal s0-s1", "heal"),
        ("verify", "verify"), ("provision", "provision"), ("entries s0", "entries"), ("counters", "counters"),
        ("status", "status"), ("watch --once", "watch"), ("flows", "flows"),
        ("flows --watch on", "watch_flows"), ("reroute h0-h9 s9,s3", "reroute"),
        ("fcplus prove --running", "prove"),
    ],
)  # fmt: skip
def test_commands(prompt, line, name):
    it, session, text = prompt
    it.do(line)
    assert [call[0] for call in session.calls] == [name]
    assert text.getvalue().strip()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("help", "send SRC DST"), ("help send", "--bytes"), ("help fly", "there is no command 'fly'"), ("", ""),
        ("fly", "there is no command 'fly' (try `help`)"), ("send h0", "required: DST"),
        ("send h0 h1 --bytes x", "is not a number of bytes"), ("send h0 h99", "has h0 to h71"),
        ("send 'h0", "No closing quotation"), ("path h0 h1 --sport 1 --usid s1", "not allowed with"),
        ("send --help", "usage"), ("send h0 h1 --bogus", "unrecognized arguments: --bogus"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_printed_and_the_prompt_stays(prompt, capsys, line, says):
    it, _, text = prompt
    it.do(line)
    assert says in text.getvalue() + capsys.readouterr().out


@pytest.mark.parametrize("end", [b"quit\r", b"exit\r", b"\x04"])
def test_a_terminal(end):
    """On a real terminal: a command, a mistake, and each way to leave."""
    script = (
        "from tests.unit.cli.test_prompt import FakeSession\nfrom detour.cli.prompt import Prompt\n"
        "Prompt(FakeSession()).run()\nprint('left')\n"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        start_new_session=True, env=os.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""

    def read_until(what: bytes) -> None:
        nonlocal seen
        while what not in seen:
            assert select.select([ours], [], [], PATIENCE_S)[0], (what, seen)
            seen += os.read(ours, 4096)
        seen = seen.split(what, 1)[1]

    def answered(line: bytes, answer: bytes) -> None:
        """Type a line and wait for the prompt that follows its answer: a prompt before it may be the last one's, drawn
        again, and a control character typed between two prompts is the terminal's, not theirs."""
        os.write(ours, line)
        read_until(answer)
        read_until(b"detour>")

    read_until(b"detour>")
    answered(b"fail s0-s1\r", b"is down")
    answered(b"fly\r", b"there is no command")
    os.write(ours, b"\x03")  # on an empty line: nothing ends
    answered(b"fly\r", b"there is no command")
    os.write(ours, b"heal s0-s\x03")
    answered(b"fly\r", b"there is no command")
    os.write(ours, end)
    read_until(b"left")
    assert process.wait(10) == 0
    os.close(ours)


def completions(text: str) -> list[str]:
    session = FakeSession()
    it = Prompt(session)  # type: ignore[arg-type]
    completer = CommandCompleter(it._commands.choices, of_topology(session.topology))
    return [completion.text for completion in completer.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "some", "none"),
    [
        ("", ["send", "provision", "help", "quit"], ["h0"]), ("pro", ["probe", "provision"], ["send"]),
        ("send ", ["h0", "h3"], ["s0"]), ("send h0 ", ["h3"], ["s0"]),
        ("send h0 h1 ", ["--bytes", "--usid"], ["h0"]), ("send h0 h1 --bytes ", [], ["h0", "--usid"]),
        ("send --bytes 10 ", ["h0"], ["s0"]), ("fail s0-", ["s0-s2", "s0-s3"], ["s1", "h0"]),
        ("fail s", ["s1", "s0-s2"], ["h0"]), ("entries ", ["s3"], ["h0"]),
        ("flows --watch ", ["on", "off"], ["h0"]), ("fly ", [], ["h0"]),
    ],
)  # fmt: skip
def test_what_is_due_is_offered(text, some, none):
    offered = completions(text)
    assert set(some) <= set(offered)
    assert not set(none) & set(offered)


def test_the_prompt_knows_every_operation():
    session = FakeSession()
    it = Prompt(session, Console(file=io.StringIO()))  # type: ignore[arg-type]
    assert len(ASKING_GROUPS) > 3
    # By options: switches that watch flows, jobs that `place --run` runs, the placement that `status` and `metrics`
    # show, `fcplus prove --running`, `trace --live`; by the page: `trace_frame`, `clients`.
    others = {"watch_flows", "placement", "prove", "trace_live", "trace_frame", "clients", "run_jobs"}
    assert set(OPERATIONS) - set(it._commands.choices) == others


# -- what shells offer for the command line ------------------------------------------------------------------


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
