# SPDX-License-Identifier: Apache-2.0
"""The ring in which compiled code leaves log_msg() calls for Python to format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RING_WORDS = 1 << 16


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A log_msg() call of the program: its text and the (bits, signed) of every argument."""

    text: str
    args: tuple[tuple[int, bool], ...]

    @property
    def words(self) -> int:
        """Words that the arguments take in a record."""
        return sum((bits + 63) // 64 for bits, _ in self.args)


class LogRing:
    """Layout: words written so far, then records `[format, argument words...]`. A record begins at its position modulo
    `RING_WORDS` and never wraps: there is room for one behind the end."""

    def __init__(self, formats: tuple[LogFormat, ...]) -> None:
        self._formats = formats
        self._words = np.zeros(2 + RING_WORDS + max((f.words for f in formats), default=0), dtype=np.uint64)
        self._read = 0
        self.address: int = self._words.ctypes.data

    def drain(self) -> list[str]:
        """The messages since the last call; one of them tells if others were overwritten."""
        end = int(self._words[0])
        messages = []
        if end - self._read > RING_WORDS:
            messages.append(f"log: {end - self._read} words of messages came too fast and are lost")
            self._read = end
        while self._read < end:
            at = self._read % RING_WORDS
            fmt = self._formats[int(self._words[1 + at])]
            words = [int(w) for w in self._words[2 + at : 2 + at + fmt.words]]
            messages.append(_text(fmt, words))
            self._read += 1 + fmt.words
        return messages


def _text(fmt: LogFormat, words: list[int]) -> str:
    values = []
    for bits, signed in fmt.args:
        count = (bits + 63) // 64
        value = sum(w << (64 * i) for i, w in enumerate(words[:count])) & ((1 << bits) - 1)
        del words[:count]
        values.append(value - (1 << bits) if signed and value >> (bits - 1) else value)
    parts = fmt.text.split("{}")
    text = parts[0]
    for i, part in enumerate(parts[1:]):
        text += (str(values[i]) if i < len(values) else "{}") + part
    return text.replace("\\{", "{").replace("\\}", "}")
