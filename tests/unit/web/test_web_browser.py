# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: a fabric boots, a link is clicked and fails, traffic moves; a packet is stepped through;
a recorded run is played back."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from detour.base.html import html_page
from detour.base.places import P4SRC
from detour.base.tables import Table, left
from detour.experiments.sim.report import REPORT_STYLE, html_table
from tests.waiting import PATIENCE_S, until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
WANTED = "chromium and chromedriver are not on PATH (Debian: chromium, chromium-driver)"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=WANTED)]
TOPOLOGY = "dragonfly:p=1,a=2,h=2"
# Chromium must not look for the network: the machine may have none.
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip

NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""Chromium gives requests up when an interface comes or goes, as those of other tests do."""


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """The address of a page, by the command that a user gives."""
    command = [sys.executable, "-m", "detour.cli", "web", "--port", "0", "--json", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield json.loads(server.stdout.readline())["url"]
    finally:
        server.terminate()
        assert server.wait(PATIENCE_S) == 0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of the page of a fabric that is up, by the commands that a user gives."""
    folder = tmp_path_factory.mktemp("run")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        detour = [sys.executable, "-m", "detour.cli"]
        subprocess.run(
            [*detour, "up", "--detach", "--target", "engine", "--topo", TOPOLOGY], check=True, capture_output=True
        )
        try:
            # Tracing is compiled when it is first asked for, which may take minutes; a click does not wait so long.
            subprocess.run([*detour, "trace", "h0", "h5"], check=True, capture_output=True)
            with served() as address:
                yield address
        finally:
            subprocess.run([*detour, "down"], check=True, capture_output=True)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('user')}", "--window-size=1280,720"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver: Any = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Any]:
    """A tab, which has no token yet."""
    first = chromium.current_window_handle
    chromium.switch_to.new_window("tab")
    chromium.refused = ()  # what a test asks the server in vain
    yield chromium
    problems = [entry["message"] for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"]
    chromium.close()
    chromium.switch_to.window(first)
    allowed = (*chromium.refused, NETWORK_CHANGED)
    assert not [text for text in problems if not any(part in text for part in allowed)]


def value(browser: Any, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def text_of(browser: Any, selector: str) -> str:
    """At once, since the page may replace an element at any time."""
    return browser.execute_script("return document.querySelector(arguments[0]).innerText", selector)


def press(browser: Any, name: str) -> None:
    """Clicks something as soon as it is there; again if the page has just drawn it anew."""
    from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

    def pressed() -> bool:
        try:
            browser.find_element("id", name).click()
        except (NoSuchElementException, StaleElementReferenceException):
            return False
        return True

    until(pressed)


def opened(browser: Any, url: str, view: str = "") -> None:
    browser.get("about:blank")
    browser.get(url + view)
    until(lambda: value(browser, "window.detour && window.detour.store.samples.length > 1"))


def answered(browser: Any, name: str, answer: str, expected: str) -> None:
    """Presses until the page shows what is expected; again if Chromium has given the request up."""
    press(browser, name)

    def shown() -> bool:
        text = value(browser, answer)
        if "Failed to fetch" in text:
            press(browser, name)
        return expected in text

    until(shown)


def test_a_load_begins_a_link_is_clicked_and_fails_and_traffic_moves(browser, url):
    opened(browser, url, "#act")
    assert "token" not in browser.current_url
    press(browser, "begin")
    until(lambda: value(browser, "window.detour.store.now.flows.length") > 0)
    until(lambda: max(value(browser, "window.detour.store.now.use")) > 0.2)

    # Where a global link is on the picture is known to the page; the click is one like a user's.
    busy = "window.detour.store.graph.links.filter((link) => link.kind === 'global')"
    until(lambda: value(browser, f"{busy}.some((link) => window.detour.store.of(link).use > 0.2)"))
    name, x, y = value(
        browser,
        f"""(() => {{ const page = window.detour, p = page.picture;
        const link = {busy}.sort((a, b) => page.store.of(b).use - page.store.of(a).use)[0];
        const a = page.store.nodes.get(link.a), b = page.store.nodes.get(link.b), part = 0.37;
        const place = (at, by) => (a[at] + part * (b[at] - a[at])) * p.scale + by;
        return [link.name, place('x', p.x), place('y', p.y)]; }})()""",
    )
    canvas = browser.find_element("id", "fabric")
    from selenium.webdriver import ActionChains

    middle = canvas.size["width"] / 2, canvas.size["height"] / 2
    ActionChains(browser).move_to_element_with_offset(
        canvas, round(x - middle[0]), round(y - middle[1])
    ).click().perform()
    until(lambda: f"link?name={name}" in browser.current_url)
    press(browser, "fail")
    until(lambda: value(browser, "window.detour.store.now.failures") == [name])
    until(lambda: value(browser, f"window.detour.store.of(window.detour.store.links.get('{name}')).up") == 0)
    log = browser.find_element("id", "events")
    until(lambda: f"{name} is down" in log.text)
    until(lambda: "entries inserted" in log.text)
    until(lambda: max(value(browser, "window.detour.store.now.use")) > 0.2)  # by another way
    press(browser, "heal")
    until(lambda: value(browser, "window.detour.store.now.failures") == [])
    opened(browser, url, "#act")
    press(browser, "end")  # as long as it goes on it keeps a processor busy
    answer = "document.getElementById('end').form.querySelector('output').textContent"
    until(lambda: "adv1 has ended: " in value(browser, answer))


def test_views_have_addresses_and_keys_work(browser, url):
    opened(browser, url, "#switch?name=s3")
    body = browser.find_element("id", "body")
    until(lambda: "Switch s3" in body.text)
    assert "router.route" in body.text
    opened(browser, url, "#path?source=h0&target=h5&usid=s2")
    until(lambda: "fcbb:bb00:3:6:8005::" in body_text(browser))
    until(lambda: len(value(browser, "window.detour.picture.lit")) > 2)
    page = browser.find_element("tag name", "body")
    page.send_keys("f")
    until(lambda: browser.current_url.endswith("#flows"))
    page.send_keys(" ")
    until(lambda: text_of(browser, "#pause") == "Play")
    at = value(browser, "window.detour.store.at")
    browser.find_element("id", "time").send_keys("\ue012")  # left
    assert value(browser, "window.detour.store.at") == at - 1
    browser.find_element("id", "time").send_keys("\ue010")  # end
    assert value(browser, "window.detour.store.at") is None


def body_text(browser: Any) -> str:
    return text_of(browser, "#body")


def test_without_the_token_nothing_can_be_clicked(browser, url):
    opened(browser, url.partition("?")[0], "#link?name=s0-s1")
    until(lambda: browser.find_elements("id", "fail"))
    assert text_of(browser, "#mode") == "read-only"
    assert value(browser, "document.getElementById('fail').disabled")


def test_on_a_phone_nothing_is_wider_than_the_screen(browser, url):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for view in ("#links", "#flows", "#switch?name=s0", "#path?source=h0&target=h5", "#act", "#packet"):
        opened(browser, url, view)
        assert value(browser, "document.documentElement.scrollWidth") <= 390, view
        assert value(browser, "document.getElementById('fabric').clientHeight") > 150, view
    opened(browser, url, "#packet?source=h0&target=h5")
    clicked(browser, "#sendone")
    until(lambda: browser.find_elements("id", "source") or browser.find_elements("id", "stepper"))
    for _ in range(20):
        browser.find_element("tag name", "body").send_keys(".")
    until(lambda: browser.find_elements("id", "source"))
    assert value(browser, "document.documentElement.scrollWidth") <= 390


def typed(browser: Any, name: str, text: str) -> None:
    browser.execute_script("document.getElementById(arguments[0]).value = arguments[1]", name, text)


def test_a_form_says_what_came_of_it_and_keeps_saying_it(browser, url):
    browser.refused = ["/api/do - Failed to load resource: the server responded with a status of 400"]
    opened(browser, url, "#act")
    until(lambda: browser.find_elements("id", "send"))
    typed(browser, "from", "h99")
    typed(browser, "to", "h1")
    answer = "document.getElementById('send').form.querySelector('output')"
    answered(browser, "send", f"{answer}.textContent", "h99")
    assert value(browser, f"{answer}.classList.contains('bad')")
    typed(browser, "from", "h0")
    answered(browser, "send", f"{answer}.textContent", "arrived as sent")
    assert not value(browser, f"{answer}.classList.contains('bad')")
    opened(browser, url, "#link?name=s0-s1")  # which is drawn anew with every sample
    press(browser, "fail")
    answer = "document.getElementById('heal').form.querySelector('output').textContent"
    until(lambda: "s0-s1 is down: " in value(browser, answer))
    seen = value(browser, "window.detour.store.samples.length")
    until(lambda: value(browser, "window.detour.store.samples.length") > seen + 2)
    assert "s0-s1 is down: " in value(browser, answer)
    press(browser, "heal")
    until(lambda: "s0-s1 is back: " in value(browser, answer))


def test_the_log_is_filtered_and_changes_of_path_share_a_line(browser, url):
    opened(browser, url, "#links")
    browser.execute_script(
        """const page = window.detour, { store } = page;
        document.getElementById("events").replaceChildren();
        const add = (i, event) => store.add([{ ...store.now, t: store.now.t + 0.001 * i, events: [event] }]);
        for (let i = 1; i <= 30; i++) add(i, { kind: "reroute", text: "another path: h0-h1 to s2", count: 2 });
        page.log();
        add(31, { kind: "fail", text: "s0-s1 is down" });
        add(32, { kind: "reroute", text: "another path: h0-h1 to s3", count: 1 });
        page.log();"""
    )
    shown = "[...document.querySelectorAll('#events > div:not([hidden])')].map((line) => line.lastChild.textContent)"
    lines = value(browser, shown)
    assert lines[:2] == ["another path: h0-h1 to s3", "s0-s1 is down"]
    assert lines[2].startswith("60 changes of path since ")
    assert lines[2].endswith("the last: h0-h1 to s2")
    assert len(lines) == 3
    browser.execute_script(
        "const kinds = document.getElementById('kinds'); kinds.value = 'fabric';"
        " kinds.dispatchEvent(new Event('change'));"
    )
    assert value(browser, shown) == ["s0-s1 is down"]


def test_names_that_do_not_exist_are_answered_where_they_are_typed(browser, url):
    opened(browser, url)
    field = browser.find_element("id", "name")
    examples = field.get_attribute("placeholder").split(", ")
    for name, view in zip(examples[:3], ("switch", "link", "host"), strict=True):
        field.clear()
        field.send_keys(f"{name}\n")
        until(lambda view=view, name=name: browser.current_url.endswith(f"#{view}?name={name}"))
        assert not text_of(browser, "#unknown")
    field.clear()
    field.send_keys("s99\n")
    until(lambda: "there is no s99" in text_of(browser, "#unknown"))
    opened(browser, url, "#link?name=s0-s99")
    assert "there is no link s0-s99" in text_of(browser, "#unknown")
    browser.refused = ["/api/flow?name=x - Failed to load resource: the server responded with a status of 404"]
    opened(browser, url, "#flow?name=x")
    until(lambda: "there is no flow 'x'" in body_text(browser))


def test_placeholders_are_as_wide_as_they_need_to_be(browser, url):
    for view in ("#links", "#path", "#act", "#host?name=h0", "#packet"):
        opened(browser, url, view)
        until(lambda: body_text(browser).strip())
        cut = value(
            browser,
            """[...document.querySelectorAll("input[placeholder]")].filter((field) => {
            if (!field.offsetWidth) return false;
            field.value = field.placeholder;
            return field.scrollWidth > field.clientWidth; }).map((field) => field.placeholder)""",
        )
        assert not cut, view


def test_links_are_sorted_and_charts_have_scales(browser, url):
    opened(browser, url, "#links")
    browser.execute_script(
        "const { store } = window.detour; window.detour.time.toggle();"
        " store.now.use = store.now.use.map((use, i) => (7 * i % 20) / 20 + 0.003 * (i % 11)); window.detour.render();"
    )
    column = (
        "[...document.querySelectorAll('#body tbody tr td:nth-child(2)')].map((cell) => parseFloat(cell.textContent))"
    )
    until(lambda: max(value(browser, column)) > 90)
    uses = value(browser, column)
    assert uses == sorted(uses, reverse=True)
    assert "queue, packets" in body_text(browser)
    opened(browser, url, "#link?name=s0-s1")
    until(lambda: browser.find_elements("css selector", "figure.chart"))
    # In one step: the page may draw its charts anew at any time.
    texts = value(
        browser,
        "[...document.querySelectorAll('figure.chart')]"
        ".map((chart) => [...chart.querySelectorAll('span')].map((span) => span.innerText.trim()))",
    )
    assert texts[0][:2] == ["100 %", "0.0 %"]
    assert [text.split()[1] for text in texts[1][:2]] == ["packets", "packets"]
    assert all(":" in time for text in texts for time in text[2:])
    rates = browser.execute_async_script(
        "const done = arguments[0];"
        " import('/static/look.js').then(({ rateText }) => done([32000, 100000, 2.184, 0.5, 0].map(rateText)));"
    )
    assert rates == ["32 Gb/s", "100 Gb/s", "2.18 Mb/s", "500 kb/s", "0 Mb/s"]


def test_names_of_groups_lie_beside_all_nodes_and_inside_the_picture(browser, url):
    opened(browser, url)
    labels = value(
        browser,
        """(() => { const { picture, store } = window.detour, nodes = [...store.nodes.values()];
        return picture.labels.map(({ text, x, y }) => [
          text, x * picture.scale + picture.x, y * picture.scale + picture.y,
          nodes.some((node) => Math.abs(node.x - x) < 30 && Math.abs(node.y - y) < 12)]); })()""",
    )
    size = browser.find_element("id", "fabric").size
    assert [text for text, *_ in labels] == [f"group {number}" for number in range(len(labels))]
    assert len(labels) == value(browser, "window.detour.store.graph.groups")
    for _, x, y, covered in labels:
        assert not covered
        assert 20 < x < size["width"] - 20
        assert 5 < y < size["height"] - 30, "not below the legend either"


# -- packets -------------------------------------------------------------------------------------------------


def clicked(browser: Any, selector: str) -> None:
    """Clicks when it is there."""
    until(lambda: browser.find_elements("css selector", selector))
    browser.find_element("css selector", selector).click()


def test_a_packet_is_sent_and_stepped_through_with_its_source(browser, url):
    opened(browser, url, "#packet?source=h0&target=h5&usid=s2")
    clicked(browser, "#sendone")
    until(lambda: browser.find_elements("css selector", "#hops button"))
    hops = [button.text for button in browser.find_elements("css selector", "#hops button")]
    assert hops[0] == "s0"
    assert "s2" in hops
    assert value(browser, "window.detour.picture.lit") == ["h0", *hops, "h5"]
    assert value(browser, "!document.getElementById('pipeline').hidden")
    page = browser.find_element("tag name", "body")
    assert browser.find_elements("css selector", "#source .lit"), "it opens on a step with a line of P4 and headers"
    assert browser.find_elements("css selector", "#headers tr.head")
    page.send_keys("<")
    seen = []
    for _ in range(14):
        seen.append(text_of(browser, "#event"))
        page.send_keys(".")
    assert len(set(seen)) > 10
    until(lambda: "step=14" in browser.current_url)
    assert browser.find_elements("css selector", "#pipeline .node.now")
    number, line = value(
        browser,
        "(() => { const lit = document.querySelector('#source .lit'); return [lit.firstChild.textContent,"
        " lit.lastChild.textContent]; })()",
    )
    file = text_of(browser, "figcaption").partition(":")[0]
    assert (Path("p4src") / file).read_text().splitlines()[int(number) - 1] == line.rstrip("\n")
    page.send_keys(",")
    until(lambda: "step=13" in browser.current_url)
    outside = value(
        browser,
        """(() => { const stage = document.getElementById("pipeline").getBoundingClientRect();
        return [...document.querySelectorAll("#pipeline .node[data-id^='parser/']")].filter((node) => {
          const box = node.getBoundingClientRect();
          return box.left < stage.left || box.right > stage.right; }).length; })()""",
    )
    assert outside == 0
    page.send_keys("]")
    until(lambda: "hop=1" in browser.current_url)
    there = browser.current_url
    browser.get("about:blank")
    browser.get(there)
    until(lambda: browser.find_elements("css selector", "#hops button[aria-pressed=true]"))
    assert text_of(browser, "#hops button[aria-pressed=true]") == hops[1]


def test_a_switch_on_the_way_opens_by_a_click_and_forks_are_chosen(browser, url):
    opened(browser, url, "#packet?source=h0&target=h5&sport=0x8001&way=all")
    until(lambda: browser.find_elements("css selector", "#hops button"))
    assert value(browser, "document.getElementById('pipeline').hidden")
    assert value(browser, "window.detour.packet.packet.outcomes.reduce((sum, one) => sum + one.fraction, 0)") == (
        pytest.approx(1)
    )
    ways = set()
    for option in range(value(browser, "(document.querySelector('select.fork')?.options.length ?? 1)")):
        browser.execute_script(
            "const fork = document.querySelector('select.fork'); if (fork) { fork.value = arguments[0];"
            " fork.dispatchEvent(new Event('change')); }",
            option,
        )
        ways.add(tuple(value(browser, "window.detour.picture.lit")))
    assert len(ways) > 1
    browser.execute_script("window.detour.choose('switch', window.detour.picture.lit[1])")
    until(lambda: not value(browser, "document.getElementById('pipeline').hidden"))
    browser.find_element("tag name", "body").send_keys("g")
    until(lambda: value(browser, "document.getElementById('pipeline').hidden"))


def test_a_packet_is_built_field_by_field_and_sent(browser, url):
    opened(browser, url, "#packet?source=h0&target=h5")
    clicked(browser, "#take")
    until(lambda: browser.find_elements("css selector", "[data-field='ipv6.hop_limit']"))
    browser.execute_script(
        "const field = document.querySelector('[data-field=\"ipv6.hop_limit\"]'); field.value = '1';"
        " field.dispatchEvent(new Event('change'));"
    )
    clicked(browser, "#build")
    until(lambda: browser.find_elements("css selector", "#hops button"))
    assert len(browser.find_elements("css selector", "#hops button")) == 1
    assert value(browser, "window.detour.packet.packet.hops[0].trace.events[0].bytes") == 166
    endings = value(browser, "window.detour.packet.packet.outcomes")
    assert not any(each["host"] for ending in endings for each in ending["packets"])


def test_a_program_without_a_fabric(browser, tmp_path_factory):
    program = "detour/p4src/build/ipv4.p4info.txtpb,detour/p4src/build/ipv4.json"
    with served("--program", program) as address:
        browser.get(address)
        until(lambda: browser.find_elements("css selector", "#fields select"))
        shown = [tab.text for tab in browser.find_elements("css selector", "#tabs button") if tab.is_displayed()]
        assert shown == ["Packet", "Program"]
        browser.execute_script(
            "const turn = document.querySelector('#fields select'); turn.value = 0;"
            " turn.dispatchEvent(new Event('change'));"
        )
        until(lambda: browser.find_elements("css selector", "[data-header=ipv4]"))
        clicked(browser, "#build")
        until(lambda: browser.find_elements("id", "outcome"))
        assert value(browser, "document.querySelectorAll('#pipeline .visited').length") > 5
        browser.find_element("tag name", "body").send_keys(">")
        until(lambda: "dropped" in text_of(browser, "#outcome"))
        browser.get("about:blank")  # before the server ends


def test_a_program_is_edited_on_its_page_and_a_packet_goes_through_the_new_one(browser, tmp_path_factory):
    source = tmp_path_factory.mktemp("program") / "ipv4.p4"
    source.write_text((P4SRC / "ipv4.p4").read_text())

    def edited(before: str, after: str) -> None:
        browser.execute_script(
            "const text = document.getElementById('program'); text.value = text.value.replace(...arguments);"
            " text.dispatchEvent(new Event('input'));",
            before,
            after,
        )

    with served("--program", str(source)) as address:
        browser.get(address)
        until(lambda: browser.find_elements("css selector", "#fields select"))
        clicked(browser, "#build")
        until(lambda: browser.find_elements("id", "outcome"))
        assert "port 3" not in text_of(browser, "#outcome")
        browser.find_element("tag name", "body").send_keys("e")
        until(lambda: browser.find_elements("id", "program"))

        edited("routes.apply();", "rotes.apply();")
        until(lambda: browser.find_elements("css selector", ".notes b.error"))
        line = source.read_text().partition("routes.apply();")[0].count("\n") + 1
        assert text_of(browser, ".editor pre .error") == f"{line}\n"
        marked, mark, note, rows = value(
            browser,
            """(() => { const top = (selector) => document.querySelector(selector).getBoundingClientRect().top;
            return [document.querySelector(".notes b.error").textContent, top(".notes i.error"),
              top(".notes b.error"), top(".editor pre .error")]; })()""",
        )
        assert "rotes is not declared" in marked
        assert mark == pytest.approx(rows, abs=8)
        assert note == pytest.approx(rows, abs=8)
        clicked(browser, "#run")
        until(lambda: "1 error" in text_of(browser, "output.answer"))

        edited("rotes.apply();", "routes.apply();")
        edited("            drop();", "            std.egress_spec = 3;")
        clicked(browser, "#run")
        until(lambda: browser.find_elements("id", "outcome"))
        browser.find_element("tag name", "body").send_keys(">")
        until(lambda: "port 3" in text_of(browser, "#outcome"))
        assert "routes.apply();" in source.read_text(), "it is not saved"
        browser.get("about:blank")  # before the server ends


def test_labels_of_edges_lie_on_no_other_label_and_on_no_node(browser):
    for program in ("fabric", "sai"):  # the widest parser; hits and misses that lead to the same place
        build = f"detour/p4src/build/{program}"
        with served("--program", f"{build}.p4info.txtpb,{build}.json") as address:
            browser.get(address)
            until(lambda: browser.find_elements("css selector", "#fields select"))
            clicked(browser, "#build")
            until(lambda: browser.find_elements("id", "outcome"))
            boxes = "(which) => [...document.querySelectorAll(which)].map((each) => each.getBoundingClientRect())"
            shared = """(one, other) => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
              && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 2.5"""
            count, over = value(
                browser,
                f"""(() => {{ const boxes = {boxes}, shared = {shared}, labels = boxes("#pipeline .label");
                const others = boxes("#pipeline .node rect, #pipeline .node polygon");
                return [labels.length, labels.flatMap((label, i) =>
                  [...labels.slice(i + 1), ...others].filter((other) => shared(label, other))).length]; }})()""",
            )
            assert count > 8
            assert over == 0
            browser.get("about:blank")  # before the server ends


# -- runs ----------------------------------------------------------------------------------------------------


def test_a_recorded_run_is_played_back_and_sought(browser, tmp_path):
    from detour.cli import main

    path = tmp_path / "a.run"
    what = ["--topo", "leaf-spine:leaves=2,spines=2,hosts=2", "--workload", "permutation:bytes=300k"]
    assert main(["sim", *what, "--fail", "s0-s2@10us", "--record", str(path), "--json"]) == 0
    with served("--run", str(path)) as address:
        opened(browser, address)
        assert text_of(browser, "#mode") == "recorded"
        until(lambda: (value(browser, "window.detour.store.at") or 0) > 2)  # it plays by itself
        browser.find_element("id", "pause").click()
        until(lambda: "t=" in browser.current_url)
        assert not browser.find_elements("id", "fail")
        time_line = browser.find_element("id", "time")
        time_line.send_keys("\ue011")  # home
        until(lambda: value(browser, "window.detour.store.at") == 0)
        assert "s0-s2 is down" not in text_of(browser, "#events")
        opened(browser, address, "#link?name=s0-s2&t=20")
        until(lambda: "down" in body_text(browser))
        assert value(browser, "Math.round(1e6 * window.detour.store.now.t)") == 20
        until(lambda: "s0-s2 is down" in text_of(browser, "#events"))
        opened(browser, address, "#switch?name=s0&t=5")
        until(lambda: "s0:1" in body_text(browser))
        browser.get("about:blank")


def test_reports_are_as_wide_as_a_phone(browser, tmp_path):
    from detour.cli import main

    simulated = tmp_path / "sim"
    topo = "leaf-spine:leaves=2,spines=2,hosts=2"
    assert main(["sim", "--topo", topo, "--workload", "permutation:bytes=10k", "--out", str(simulated)]) == 0
    program = "detour/p4src/build/ipv4.p4info.txtpb,detour/p4src/build/ipv4.json"
    covered, pages, report = tmp_path / "c.cov", tmp_path / "pages", tmp_path / "wide.html"
    frame = "ff" * 12 + "0800" + "00" * 46
    assert main(["trace", "--program", program, "--packet", frame, "--coverage", str(covered)]) == 0
    assert main(["coverage", str(covered), "--html", str(pages)]) == 0
    wide = Table([left(f"column {k}", lambda _: "a-long-word-that-has-no-place-to-break") for k in range(9)], [None])
    report.write_text(html_page("x" * 99, html_table(wide), REPORT_STYLE))
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    for file in (simulated / "report.html", *pages.iterdir(), report):
        browser.get(file.as_uri())
        assert value(browser, "document.documentElement.scrollWidth") == 390, file


def test_files_of_traces_are_stepped_through(browser, tmp_path):
    files = []
    for name, arguments in (("a", ["h0", "h5", "--format", "4ward"]), ("b", ["h5", "h0", "--format", "bmv2"])):
        command = [sys.executable, "-m", "detour.cli", "trace", "--topo", TOPOLOGY, *arguments]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        files.append(tmp_path / name)
        files[-1].write_text(text)
    with served("--trace", *map(str, files)) as url:
        browser.get(f"{url}#packet?id=1&hop=1&step=0")
        until(lambda: browser.find_elements("id", "event"))
        assert "comes in by port" in text_of(browser, "#event")
        browser.find_element("tag name", "body").send_keys(">")
        until(lambda: value(browser, "document.querySelectorAll('#pipeline .now').length") == 1)
        assert "deparser" in value(browser, "document.querySelector('#pipeline .now').dataset.id")
        assert value(browser, "document.querySelectorAll('#hops button').length") > 1
        assert not value(browser, "document.getElementById('ask')")
        browser.get("about:blank")
        browser.get(f"{url}#packet?id=2")
        until(lambda: value(browser, "document.querySelectorAll('#pipeline .visited').length") >= 3)
        browser.get("about:blank")
