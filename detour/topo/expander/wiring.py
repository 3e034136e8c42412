# SPDX-License-Identifier: Apache-2.0
"""Random graphs without loops and parallel links: stubs are joined at random, what is not allowed is swapped away."""

from __future__ import annotations

import numpy as np

from detour.base.arrays import Int32Array
from detour.base.errors import DetourError

Ends = Int32Array
SwitchPair = tuple[int, int]

_ROUNDS = 400  # swaps tried for every link before a wiring is given up
_RESTARTS = 20


def ordered(a: int, b: int) -> SwitchPair:
    """The two ends of a link, the smaller one first."""
    return (a, b) if a < b else (b, a)


def join(
    a: Ends, b: Ends, taken: set[SwitchPair], rng: np.random.Generator, what: str, mix: bool = False
) -> tuple[Ends, Ends]:
    """Links stub a[i] to a stub of b, each of them once; adds the links to `taken`.

    `a`: (links,) switches, one entry a stub; `b`: (links,) switches, one entry a stub; `taken`: links that exist
    already and may not be made again; `rng`: where chance comes from; `what`: what is wired, for the error; `mix`: a
    and b are halves of one set of stubs, so that any two may be joined. Raises `DetourError`: the stubs cannot be
    joined without loops or parallel links, as far as random swaps can tell."""
    for _ in range(_RESTARTS):
        left, right = _shuffled(a, b, rng, mix)
        links = _Links(left, right, taken)
        if links.repair(rng, mix):
            taken.update(links.pairs())
            return np.array(links.left, dtype=np.int32), np.array(links.right, dtype=np.int32)
    raise DetourError(
        f"{what}: no wiring without loops and parallel links was found; it takes more switches or fewer links a switch"
    )


def _shuffled(a: Ends, b: Ends, rng: np.random.Generator, mix: bool) -> tuple[list[int], list[int]]:
    if not mix:
        return a.tolist(), rng.permutation(b).tolist()
    every = rng.permutation(np.concatenate([a, b]))
    return every[: a.size].tolist(), every[a.size :].tolist()


class _Links:
    """Links in the making: `left[i]` - `right[i]`, and how often every pair occurs."""

    def __init__(self, left: list[int], right: list[int], taken: set[SwitchPair]) -> None:
        self.left, self.right, self.taken = left, right, taken
        self.count: dict[SwitchPair, int] = {}
        for pair in self.pairs():
            self.count[pair] = self.count.get(pair, 0) + 1

    def pairs(self) -> list[SwitchPair]:
        return [ordered(a, b) for a, b in zip(self.left, self.right, strict=True)]

    def _bad(self, i: int) -> bool:
        pair = ordered(self.left[i], self.right[i])
        return pair[0] == pair[1] or pair in self.taken or self.count[pair] > 1

    def repair(self, rng: np.random.Generator, mix: bool) -> bool:
        """Swap ends of bad links with those of random others until none is bad; False: it was given up."""
        bad = [i for i in range(len(self.left)) if self._bad(i)]
        for _ in range(_ROUNDS):
            for i in bad:
                if self._bad(i):
                    self._swap(i, int(rng.integers(len(self.left))), mix and bool(rng.integers(2)))
            bad = [i for i in bad if self._bad(i)]
            if not bad:
                return True
        return False

    def _swap(self, i: int, j: int, turn: bool) -> None:
        """Exchange the right ends of two links (`turn`: the right end of i and the left end of j) if both are then
        good."""
        if i == j:
            return
        new_i, new_j = (self.left[j], self.right[i]) if turn else (self.right[j], self.right[i])
        other = self.right[j] if turn else self.left[j]
        first, second = ordered(self.left[i], new_i), ordered(other, new_j)
        if first == second or any(p[0] == p[1] or p in self.taken or self.count.get(p) for p in (first, second)):
            return
        for k in (i, j):
            self.count[ordered(self.left[k], self.right[k])] -= 1
        self.right[i] = new_i
        if turn:
            self.left[j] = new_j
        else:
            self.right[j] = new_j
        for pair in (first, second):
            self.count[pair] = self.count.get(pair, 0) + 1


def regular(n: int, degree: int, rng: np.random.Generator, what: str) -> tuple[Ends, Ends]:
    """A random graph of n switches with `degree` links each (n * degree is even). Raises `DetourError`: none was
    found."""
    stubs = np.repeat(np.arange(n, dtype=np.int32), degree)
    half = stubs.size // 2
    return join(stubs[:half], stubs[half:], set(), rng, what, mix=True)
