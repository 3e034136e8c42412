# SPDX-License-Identifier: Apache-2.0
"""The application: asks the fabric, paints, and does what keys say. The fabric is asked in other threads, so keys are
heard while it answers."""

from __future__ import annotations

import threading
from collections.abc import Callable

from prompt_toolkit import Application
from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.styles import Style

from detour.base.errors import DetourError
from detour.base.plugins import unpinned
from detour.cli.live.screen import WatchScreen
from detour.fabric.operations.registry import Operations

_STYLE = Style.from_dict(
    {
        "title": "bold",
        "heads": "underline",
        "chosen": "reverse",
        "full": "ansired",
        "busy": "ansiyellow",
        "calm": "ansigreen",
        "down": "ansired bold",
        "history": "ansicyan",
        "message": "",
        "keys": "ansibrightblack",
    }
)


class Live:
    """Shows a fabric until `q` or Ctrl-C."""

    def __init__(self, asked: Operations, interval: float, everything: bool = False) -> None:
        """`interval`: seconds between updates; `everything`: idle links as well."""
        self._asked, self._interval = asked, interval
        self.screen = WatchScreen()
        self.screen.links.rows.everything = everything
        self._end = threading.Event()
        self._failure: DetourError | None = None
        self._app: Application[None] = Application(
            layout=Layout(Window(FormattedTextControl(self._text, show_cursor=False), wrap_lines=False)),
            key_bindings=self._keys(),
            style=_STYLE,
            full_screen=True,
        )

    def run(self) -> None:
        """Return when the user wants to. Raises `DetourError`: the fabric is gone."""
        status = self._asked.status()
        self.screen.title = f"{unpinned(status.topology)} on {status.target}, links of {status.rate_mbps:g} Mb/s"
        if status.failures:
            self.screen.message = f"down: {', '.join(status.failures)}"
        thread = threading.Thread(target=self._ask, name="watch", daemon=True)
        thread.start()
        try:
            self._app.run()
        finally:
            self._end.set()
        if self._failure is not None:
            raise self._failure

    def _ask(self) -> None:
        screen = self.screen
        while not self._end.is_set():
            try:
                uses = self._asked.watch(self._interval)
                flows = self._asked.flows().flows if screen.in_flows else None
            except DetourError as error:
                self._failure = error
                self._app.exit()
                return
            if not screen.paused:
                screen.links.rows.update(uses.links)
                if flows is not None:
                    screen.flows.rows.update(flows)
            self._app.invalidate()

    def _do(self, text: str, work: Callable[[], str]) -> None:
        """Do something that may take a while; say so, and what came of it."""

        def job() -> None:
            try:
                self.screen.message = work()
            except DetourError as error:
                self.screen.message = str(error)
            self._app.invalidate()

        self.screen.message = text
        threading.Thread(target=job, name="watch job", daemon=True).start()

    def _text(self) -> StyleAndTextTuples:
        size = get_app().output.get_size()
        lines = self.screen.lines(size.columns, size.rows)
        parts: StyleAndTextTuples = []
        for number, line in enumerate(lines):
            parts += [("", "\n"), *line] if number else line
        return parts

    def _keys(self) -> KeyBindings:
        keys, screen = KeyBindings(), self.screen

        def key(*names: str) -> Callable[[Callable[[], None]], None]:
            def bind(action: Callable[[], None]) -> None:
                for name in names:
                    keys.add(name)(lambda event: action())

            return bind

        @key("q", "c-c", "c-d")
        def _() -> None:
            self._app.exit()

        for names, by in ((("down", "j"), 1), (("up", "k"), -1), (("home", "g"), -(10**9)), (("end", "G"), 10**9)):
            key(*names)(lambda by=by: screen.view.move(by))
        key("pagedown", "c-f")(lambda: screen.view.move(screen.view.height))
        key("pageup", "c-b")(lambda: screen.view.move(-screen.view.height))
        key("s")(lambda: screen.view.rows.next_sort())
        key("p", "space")(lambda: setattr(screen, "paused", not screen.paused))
        key("v")(lambda: setattr(screen, "in_flows", not screen.in_flows))
        key("a")(lambda: setattr(screen.links.rows, "everything", not screen.links.rows.everything))
        key("f")(lambda: self._on_link("taking {} down ...", lambda link: f"{self._asked.fail(link).failed} is down"))
        key("h")(lambda: self._on_link("bringing {} back ...", lambda link: f"{self._asked.heal(link).healed} is back"))
        key("H")(self._heal_all)
        return keys

    def _on_link(self, text: str, work: Callable[[str], str]) -> None:
        """Do something with the link that is chosen; say what to do if there is none."""
        chosen = None if self.screen.in_flows else self.screen.links.chosen
        if chosen is None:
            self.screen.message = "choose a link first (v shows links, arrows choose)"
            return
        link = chosen.partition(" ")[0]
        self._do(text.format(link), lambda: work(link))

    def _heal_all(self) -> None:
        def work() -> str:
            healed = self._asked.heal().healed
            return f"{healed} is back" if healed else "nothing was down"

        self._do("bringing everything back ...", work)
