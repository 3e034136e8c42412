# SPDX-License-Identifier: Apache-2.0
"""Finite fields of prime-power order, as tables: what graphs from projective planes are made of.

The element with number e stands for the polynomial whose coefficients are the digits of e in base p. Fields of prime
order are the whole numbers modulo p.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from detour.base.arrays import Int32Array, Int64Array


class Field(NamedTuple):
    """Sums and products of elements 0..q-1, both (q, q)."""

    plus: Int32Array
    times: Int32Array

    @property
    def primitive(self) -> int:
        """The least element whose powers are all elements but 0."""
        q = len(self.plus)
        return next(g for g in range(1, q) if len(set(self.powers(g))) == q - 1)

    def powers(self, element: int) -> list[int]:
        """Powers 0 to q - 2 of an element."""
        found = [1]
        while len(found) < len(self.plus) - 1:
            found.append(int(self.times[found[-1], element]))
        return found


def prime_power(q: int) -> tuple[int, int] | None:
    """Prime and exponent of a prime power; None if `q` is none."""
    prime = next((p for p in range(2, q + 1) if q % p == 0), 0)
    exponent, rest = 0, q
    while prime and rest % prime == 0:
        exponent, rest = exponent + 1, rest // prime
    return (prime, exponent) if prime and rest == 1 else None


@lru_cache(maxsize=8)
def field(q: int) -> Field:
    """The field of order `q`, a prime power."""
    power = prime_power(q)
    assert power is not None, "callers check"
    p, degree = power
    digits = np.array([[e // p**i % p for i in range(degree)] for e in range(q)])
    weight = p ** np.arange(degree)
    plus = ((digits[:, None] + digits[None]) % p) @ weight
    for lower in product(range(p), repeat=degree):
        times = _products(digits, np.array(lower), p) @ weight
        if q == p or all(np.unique(row).size == q for row in times[1:]):  # no zero divisors: it is a field
            return Field(plus.astype(np.int32), times.astype(np.int32))
    raise AssertionError("there is an irreducible polynomial of every degree")


def _products(digits: Int64Array, lower: Int64Array, p: int) -> Int64Array:
    """(q, q, degree) coefficients of products modulo x^degree + the polynomial with coefficients `lower`."""
    q, degree = digits.shape
    product_of = np.zeros((q, q, 2 * degree - 1), np.int64)
    for i, j in np.ndindex(degree, degree):
        product_of[:, :, i + j] += digits[:, None, i] * digits[None, :, j]
    for high in range(2 * degree - 2, degree - 1, -1):
        product_of[:, :, high - degree : high] -= product_of[:, :, high, None] * lower
    return product_of[:, :, :degree] % p
