# SPDX-License-Identifier: Apache-2.0
"""The text of a program that is changed on its page: checked as it is typed, compiled when it is to run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError, InternalError
from detour.base.files import write_file
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.p4.compile import Result, compile_file
from detour.p4.messages import Message
from detour.p4.preprocess import STANDARD

_MOST_TEXT = 1 << 20


class EditedProgram:
    """A P4 program and what it includes, as files are and as the page has changed them."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self._edited: dict[Path, str] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="detour-web-")
        self._count = 0
        self._files: dict[str, Path] = {str(source): source}

    def texts(self) -> dict[str, str]:
        """Texts by name of file, the program's first."""
        result = self._compiled(self._edited)
        return {name: result.files[path].decode(errors="replace") for name, path in self._files.items()}

    def check(self, texts: Mapping[str, Any]) -> dict[str, Any]:
        """`errors` and `warnings` of the program with these texts: `file`, `line`, `column`, `width`, `message`."""
        return _messages(self._compiled(self._taken(texts)))

    def take(self, texts: Mapping[str, Any]) -> tuple[PipelineConfig | None, dict[str, Any]]:
        """The compiled program with these texts, which are kept if there are no errors, and the messages."""
        from detour.p4.p4info import as_text

        edited = self._taken(texts)
        result = self._compiled(edited)
        if result.errors:
            return None, _messages(result)
        assert result.p4info is not None
        self._edited = edited
        self._count += 1
        folder = Path(self._folder.name) / str(self._count)
        folder.mkdir()
        files = PipelineConfig(folder / "program.p4info.txtpb", folder / f"{self.source.stem}.json")
        write_file(files.p4info, as_text(result.p4info))
        write_file(files.blob, result.text)
        return files, _messages(result)

    def save(self) -> list[str]:
        """Write what has been changed and has compiled into its files; their names."""
        saved = []
        for path, text in self._edited.items():
            if text != path.read_text():
                write_file(path, text)
                saved.append(str(path))
        self._edited = {}
        return saved

    def close(self) -> None:
        self._folder.cleanup()

    def _taken(self, texts: Mapping[str, Any]) -> dict[Path, str]:
        edited = dict(self._edited)
        for name, text in texts.items():
            path = self._files.get(name)
            if path is None or not isinstance(text, str) or len(text) > _MOST_TEXT:
                raise DetourError(f"{name[:80]} is not a file of the program")
            edited[path] = text
        return edited

    def _compiled(self, edited: Mapping[Path, str]) -> Result:
        try:
            result = compile_file(self.source, edited=edited)
        except InternalError as error:
            raise DetourError(str(error)) from None
        for path in result.files:
            if not path.is_relative_to(STANDARD):
                self._files[str(path)] = path
        return result


def _messages(result: Result) -> dict[str, Any]:
    return {
        "errors": [_message(each) for each in result.errors],
        "warnings": [_message(each) for each in result.warnings],
        "seconds": round(result.seconds, 3),
    }


def _message(message: Message) -> dict[str, Any]:
    span = message.span
    text = f"{message.text} ({message.hint})" if message.hint else message.text
    width = max(1, len(span.text.partition("\n")[0]))
    return {"file": span.file.name, "line": span.line, "column": span.column, "width": width, "message": text}
