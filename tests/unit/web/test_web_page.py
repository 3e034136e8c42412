# SPDX-License-Identifier: Apache-2.0
"""`detour web` without a browser: who may see and change what, the feed, and what the page asks for."""

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from detour.base.errors import DetourError
from detour.cli import main
from detour.cli.web.answers import Answers, addresses_on
from detour.cli.web.feed import Feed
from detour.cli.web.layers import graph_of
from detour.cli.web.server import Guard
from detour.cli.web.serving import fabric_page_beside, serve
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.session import Session
from detour.topo import parse_topology
from tests.waiting import PATIENCE_S, until

TOKEN = "a token for tests only"
TOPOLOGY = "dragonfly:p=1,a=2,h=1"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with boot(UpOptions("engine", TOPOLOGY)) as running:
        yield running


@pytest.fixture(scope="module")
def address(session: Session) -> Iterator[str]:
    """Of a server that asks a fabric."""
    urls: list[str] = []
    loop_of: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    ready = threading.Event()

    def run() -> None:
        ended = asyncio.Event()

        def now_up(url: str) -> None:
            urls.append(url)
            loop_of.append((asyncio.get_running_loop(), ended))
            ready.set()

        serve(session, 0, TOKEN, 0.05, now_up, ended)

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield urls[0].partition("?")[0].rstrip("/")
    loop, ended = loop_of[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def asked(work: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with aiohttp.ClientSession() as client:
            return await work(client)

    return asyncio.run(run())


def fetched(url: str, method: str = "GET", **more: Any) -> tuple[int, Any, dict[str, str]]:
    """(status, JSON or text, headers)"""

    async def work(client: aiohttp.ClientSession) -> tuple[int, Any, dict[str, str]]:
        async with client.request(method, url, **more) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else text, dict(response.headers)

    return asked(work)


def done(address: str, operation: str, token: str | None = TOKEN, **arguments: Any) -> tuple[int, Any]:
    headers = {} if token is None else {"X-Detour-Token": token}
    body = {"operation": operation, "arguments": arguments}
    status, answer, _ = fetched(f"{address}/api/do", "POST", json=body, headers=headers)
    return status, answer


# -- who may do what -----------------------------------------------------------------------------------------


def test_the_page_and_its_modules_come_with_a_policy_that_lets_nothing_foreign_in(address):
    for path in ("/", "/static/page.js", "/static/page.css", "/api/state"):
        status, text, headers = fetched(address + path)
        assert status == 200, path
        assert text
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert fetched(f"{address}/static/../command.py")[0] in (403, 404)
    assert fetched(f"{address}/static/%2e%2e/command.py")[0] in (403, 404)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", ""])
def test_another_name_is_refused(address, host):
    status, answer, _ = fetched(f"{address}/api/state", headers={"Host": host})
    assert (status, "error" in answer) == (403, True)


def test_localhost_is_a_name_too(address):
    port = address.rsplit(":", 1)[1]
    assert fetched(f"{address}/api/state", headers={"Host": f"localhost:{port}"})[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1"])
def test_another_page_is_refused_even_with_the_token(address, origin):
    headers = {"Origin": origin, "X-Detour-Token": TOKEN}
    assert fetched(f"{address}/api/state", headers=headers)[0] == 403
    assert fetched(f"{address}/api/live", headers=headers)[0] == 403
    body = {"operation": "fail", "arguments": {"name": "s0-s1"}}
    assert fetched(f"{address}/api/do", "POST", json=body, headers=headers)[0] == 403


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "ä"])
def test_nothing_changes_without_the_token(address, session, token):
    try:
        status, answer = done(address, "fail", token, name="s0-s1")
    except (UnicodeError, ValueError):
        return  # a header that no client sends
    assert (status, "read-only" in answer["error"]) == (403, True)
    assert session.status().failures == []


def test_nothing_changes_by_get(address, session):
    for query in ("?operation=fail&arguments=s0-s1", ""):
        assert fetched(f"{address}/api/do{query}", headers={"X-Detour-Token": TOKEN})[0] == 405
    assert session.status().failures == []


def test_a_read_only_server_has_no_token():
    guard = Guard(1, None)

    for given in ("", "None", "null"):
        request = make_mocked_request("POST", "/api/do", headers={"X-Detour-Token": given})
        assert not guard.may_change(request)


# -- what is asked for ---------------------------------------------------------------------------------------


def test_a_link_fails_and_heals_and_the_feed_says_so(address, session):
    status, answer = done(address, "fail", name="s0-s1")
    assert (status, answer["failures"]) == (200, ["s0-s1"])
    assert session.status().failures == ["s0-s1"]
    assert done(address, "heal", name="s0-s1")[1]["failures"] == []
    texts: list[str] = []

    async def work(client: aiohttp.ClientSession) -> None:
        async with client.ws_connect(f"{address}/api/live", origin=address) as live:
            message = await live.receive_json()
            texts.extend(event["text"] for sample in message["history"] for event in sample["events"])
            while "s0-s1 is back" not in texts:
                texts.extend(event["text"] for event in (await live.receive_json()).get("events", ()))

    asked(work)
    assert "s0-s1 is down" in texts
    assert any(text.startswith("tables: ") for text in texts)


@pytest.mark.parametrize(
    ("operation", "arguments", "message"),
    [
        ("fail", {"name": "s0-s9"}, "s9"),
        ("fail", {}, "needs name"),
        ("fail", {"name": 3}, "name"),
        ("down", {}, "may not call"),
        ("place", {"jobs": "/etc/passwd"}, "may not call"),
        ("capture", {"folder": "/tmp"}, "may not call"),
        ("send", {"source": "h0", "target": "h5", "file": "/etc/passwd"}, "may not name files"),
        ("trace", {"source": "h0", "target": "h5", "coverage": "/tmp/x"}, "may not name files"),
        ("send", {"source": "h0", "target": "h5", "length": 10**12}, "at most"),
        ("impair", {"link": "s0-s1", "rate": 7.0}, "fraction"),
    ],
)
def test_what_is_wrong_or_not_for_pages_is_refused_by_name(address, operation, arguments, message):
    status, answer = done(address, operation, **arguments)
    assert status == 400
    assert message in answer["error"]


def test_bodies_that_are_no_request(address):
    for body in (b"", b"[]", b"{", b'{"operation": 3, "arguments": 4}', b'{"arguments": {}}'):
        status, answer, _ = fetched(f"{address}/api/do", "POST", data=body, headers={"X-Detour-Token": TOKEN})
        assert status == 400, body
        assert "error" in answer
    big = b'{"operation": "' + b"x" * 300_000 + b'"}'
    assert fetched(f"{address}/api/do", "POST", data=big, headers={"X-Detour-Token": TOKEN})[0] == 413


def test_state_switch_flow_and_path(address):
    _, state, _ = fetched(f"{address}/api/state")
    assert state["writable"]
    assert [node["name"] for node in state["graph"]["switches"]] == [f"s{i}" for i in range(6)]
    assert {"link": "s0-s1", "from": "s0:2"} in state["directions"]
    _, switch, _ = fetched(f"{address}/api/switch?name=s3")
    assert switch["p4runtime"]["primary"] == "detour"
    assert any(row["table"].endswith("router.route") for row in switch["entries"])
    _, path, _ = fetched(f"{address}/api/path?source=h0&target=h5&usid=s2")
    assert path["delivered"]
    assert path["hops"][0]["address"].startswith("fcbb:bb00:3:6:")
    assert path["hops"][-1]["address"].startswith("fcbb:bb00:")
    for query in ("switch", "path?source=h0&target=h0", "path?source=h0&target=h5&sport=x", "flow"):
        status, answer, _ = fetched(f"{address}/api/{query}")
        assert (status, "error" in answer) == (400, True), query
    for query in ("switch?name=s99", "switch?name=h0", "flow?name=x", "packet?id=999", "packet?id=x"):
        status, answer, _ = fetched(f"{address}/api/{query}")
        assert (status, "error" in answer) == (404, True), query


def test_a_packet_is_followed_without_the_token_and_sent_with_it(address, refused):
    status, ways, _ = fetched(f"{address}/api/ways?source=h0&target=h5")
    assert status == 200
    assert sum(each["fraction"] for each in ways["outcomes"]) == pytest.approx(1)
    status, refused = done(address, "trace", None, source="h0", target="h5")
    assert (status, "read-only" in refused["error"]) == (403, True)
    status, sent = done(address, "trace", source="h0", target="h5", sport=1)
    assert (status, sent["hops"][0]["switch"], sent["id"]) == (200, "s0", ways["id"] + 1)
    assert fetched(f"{address}/api/packet?id={sent['id']}")[1] == sent
    assert [row["id"] for row in fetched(f"{address}/api/packets")[1]][:2] == [sent["id"], ways["id"]]
    for query in ("packet", "ways?source=h0", "ways?source=h0&target=h5&sport=x"):
        status, answer, _ = fetched(f"{address}/api/{query}")
        assert (status, "error" in answer) == (400, True), query


def test_a_frame_is_taken_changed_and_sent(address):
    status, given, _ = fetched(f"{address}/api/frame?source=h0&target=h5&usid=s2")
    assert (status, given["port"]) == (200, 1)
    frame = bytearray.fromhex(given["frame"])
    frame[14 + 7] = 1  # the hop limit ends at the first switch
    status, sent = done(address, "trace_frame", source="h0", frame=frame.hex(), all_ways=False)
    assert status == 200
    assert [hop["switch"] for hop in sent["hops"]] == ["s0"]
    for wrong in ("0", "zz", "", "00" * 70_000):
        status, answer = done(address, "trace_frame", source="h0", frame=wrong)
        assert (status, "error" in answer) == (400, True), wrong[:4]
    assert fetched(f"{address}/api/frame?source=h0&target=h0")[0] == 400


def test_the_pipeline_and_the_clients_of_a_switch(address):
    pipeline = fetched(f"{address}/api/pipeline")[1]
    assert pipeline["program"] == "fabric.p4"
    clients = fetched(f"{address}/api/switch?name=s0")[1]["p4runtime"]["clients"]
    assert [(each["role"], each["primary"]) for each in clients] == [("", True)]
    assert int(clients[0]["election_id"]) > 0


def test_a_page_beside_something_else(session):
    with fabric_page_beside(session, 0, TOKEN, 0.05) as url:
        assert url.endswith(f"?token={TOKEN}")
        assert fetched(url.partition("?")[0] + "api/state")[1]["kind"] == "fabric"
    with pytest.raises(aiohttp.ClientConnectionError):
        fetched(url)


def test_the_address_is_shifted_by_those_whose_usid_is_active():
    usids = (3, 0xE002, 5, 0x8005)
    assert addresses_on(usids, [1, 3, 4, 5]) == [
        "fcbb:bb00:3:e002:5:8005::", "fcbb:bb00:3:e002:5:8005::", "fcbb:bb00:5:8005::", "fcbb:bb00:5:8005::",
    ]  # fmt: skip
    assert addresses_on((0x8005,), [1, 2]) == ["fcbb:bb00:8005::"] * 2


# -- the feed ------------------------------------------------------------------------------------------------


def test_flows_and_their_paths_are_followed(session):
    feed = Feed(session, 0.05, kept=50)
    feed.start()
    try:
        session.load("adv1")
        until(lambda: any(sample["flows"] for sample in feed.listen(lambda sample: None)))
        name = next(sample for sample in feed.listen(lambda sample: None) if sample["flows"])["flows"][0]["name"]
        until(lambda: feed.paths_of(name))
        session.reroute(name, "s4")
        until(lambda: len(feed.paths_of(name)) > 1)
        until(lambda: any(e["kind"] == "reroute" for s in feed.listen(lambda x: None) for e in s["events"]))
        samples = feed.listen(lambda sample: None)
        assert len(samples) <= 50
        assert {len(sample[key]) for sample in samples for key in ("use", "queue", "up")} == {len(feed.directions)}
        assert max(max(sample["use"]) for sample in samples) > 0.1
    finally:
        session.load(stop=True)
        feed.stop()
        feed.stop()


def test_a_fabric_that_goes_away_is_told_and_does_not_end_the_feed():
    class Gone:
        def watch(self, seconds: float) -> Any:
            raise DetourError("no fabric is up")

    feed = Feed(Gone(), 0.01)  # type: ignore[arg-type]
    with pytest.raises(DetourError, match="no fabric"):
        feed.start()
    heard: list[dict[str, Any]] = []
    feed.listen(heard.append)
    feed._thread.start()
    until(lambda: heard)
    feed.stop()
    assert heard[0]["gone"] == "no fabric is up"


@pytest.mark.parametrize("topology", ["d1", "fat-tree:k=4", "leaf-spine:leaves=4,spines=2,hosts=2", "torus:dims=3x3"])
def test_every_node_has_a_place_of_its_own_inside_the_picture(topology):
    graph = graph_of(parse_topology(topology))
    nodes = [*graph["switches"], *graph["hosts"]]
    assert len({(node["x"], node["y"]) for node in nodes}) == len(nodes)
    assert all(0 < node["x"] < graph["width"] and 0 < node["y"] < graph["height"] for node in nodes)
    names = {node["name"] for node in nodes}
    assert all({link["a"], link["b"]} <= names for link in graph["links"])


def test_operations_of_the_page_exist(session):
    from detour.cli.web.answers import CHANGING
    from detour.fabric.operations.registry import OPERATIONS

    assert set(CHANGING) <= OPERATIONS.keys()
    answers = Answers(session, session.topology, Feed(session), True)
    with pytest.raises(DetourError, match="may not call"):
        answers.do("verify", {})


# -- the command ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--token", "short"], "--token: expected at least 16 printable"),
        (["--token", "x" * 20, "--read-only"], "not allowed with"),
        (["--token", "x" * 20, "--token-file", "x"], "not allowed with"),
        (["--token-file", "/no/file"], "--token-file /no/file: No such file"),
        (["--token-file", "/dev/null"], "--token-file /dev/null: expected at least 16 printable"),
        (["--port", "70000"], "is not a TCP port"),
        ([], "no fabric is up"),
    ],
)
def test_bad_input_ends_with_a_line(
    arguments,
    message,
    refused,
    monkeypatch,
    tmp_path_factory,
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    assert message in refused("web", *arguments)


@pytest.mark.parametrize("where", ["file", "standard input", "environment", "nowhere"])
def test_a_token_comes_without_standing_on_the_command_line(where, tmp_path, monkeypatch):
    served: list[str | None] = []
    monkeypatch.setattr("detour.cli.web.serving.serve", lambda asked, port, token, *more: served.append(token))
    monkeypatch.setenv("DETOUR_WEB_TOKEN", TOKEN if where == "environment" else "")
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    arguments = {"file": ["--token-file", str(file)], "standard input": ["--token-file", "-"]}.get(where, [])
    with file.open() as text, monkeypatch.context() as patch:
        if where == "standard input":
            kept = os.dup(0)
            os.dup2(text.fileno(), 0)
        try:
            assert main(["web", *arguments]) == 0
        finally:
            if where == "standard input":
                os.dup2(kept, 0)
                os.close(kept)
        patch.setenv("DETOUR_WEB_TOKEN", TOKEN)
        assert main(["web", "--read-only"]) == 0
    assert served[1] is None
    assert len(served[0] or "") > 16 if where == "nowhere" else served[0] == TOKEN
