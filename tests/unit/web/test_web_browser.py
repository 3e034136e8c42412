# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: a fabric boots, a link is clicked and fails, traffic moves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE_S, until

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not on PATH (Debian: chromium, chromium-driver)"
)
TOPOLOGY = "dragonfly:p=1,a=2,h=1"
# Chromium must not look for the network: the machine may have none.
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of the page of a fabric that is up, by the commands that a user gives."""
    folder = tmp_path_factory.mktemp("run")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        detour = [sys.executable, "-m", "detour.cli"]
        subprocess.run([*detour, "up", "--detach", "--topo", TOPOLOGY], check=True, capture_output=True)
        try:
            server = subprocess.Popen([*detour, "web", "--port", "0", "--json"], stdout=subprocess.PIPE, text=True)
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["url"]
            server.terminate()
            assert server.wait(PATIENCE_S) == 0
        finally:
            subprocess.run([*detour, "down"], check=True, capture_output=True)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path}", "--window-size=1280,720"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield driver
    problems = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    driver.quit()
    assert not problems


def value(browser: Any, script: str) -> Any:
    return browser.execute_script(f"return {script}")


def opened(browser: Any, url: str, view: str = "") -> None:
    browser.get("about:blank")
    browser.get(url + view)
    until(lambda: value(browser, "window.detour && window.detour.store.samples.length > 1"))


def test_a_load_begins_a_link_is_clicked_and_fails_and_traffic_moves(browser: Any, url: str) -> None:
    opened(browser, url, "#act")
    assert "token" not in browser.current_url
    until(lambda: browser.find_elements("id", "begin"))
    browser.find_element("id", "begin").click()
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
    until(lambda: browser.find_elements("id", "fail"))
    browser.find_element("id", "fail").click()
    until(lambda: value(browser, "window.detour.store.now.failures") == [name])
    assert value(browser, f"window.detour.store.of(window.detour.store.links.get('{name}')).up") == 0
    log = browser.find_element("id", "events")
    until(lambda: f"{name} is down" in log.text)
    until(lambda: "entries inserted" in log.text)
    until(lambda: max(value(browser, "window.detour.store.now.use")) > 0.2)  # by another way
    until(lambda: browser.find_elements("id", "heal"))
    browser.find_element("id", "heal").click()
    until(lambda: value(browser, "window.detour.store.now.failures") == [])


def test_views_have_addresses_and_keys_work(browser: Any, url: str) -> None:
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
    until(lambda: browser.find_element("id", "pause").text == "Play")
    at = value(browser, "window.detour.store.at")
    browser.find_element("id", "time").send_keys("\ue012")  # left
    assert value(browser, "window.detour.store.at") == at - 1
    browser.find_element("id", "time").send_keys("\ue010")  # end
    assert value(browser, "window.detour.store.at") is None


def body_text(browser: Any) -> str:
    return browser.find_element("id", "body").text


def test_without_the_token_nothing_can_be_clicked(browser: Any, url: str) -> None:
    opened(browser, url.partition("?")[0], "#link?name=s0-s1")
    until(lambda: browser.find_elements("id", "fail"))
    assert browser.find_element("id", "mode").text == "read-only"
    assert not browser.find_element("id", "fail").is_enabled()


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Any, url: str) -> None:
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for view in ("#links", "#flows", "#switch?name=s0", "#path?source=h0&target=h5", "#act"):
        opened(browser, url, view)
        assert value(browser, "document.documentElement.scrollWidth") <= 390, view
        assert value(browser, "document.getElementById('fabric').clientHeight") > 150, view
