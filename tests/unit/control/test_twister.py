# SPDX-License-Identifier: Apache-2.0
"""Random numbers of native code are NumPy's."""

import numpy as np
import pytest

from detour.control.fors import ejection
from tests.native import from_python

seeded, below = from_python(ejection.seeded), from_python(ejection.below)


@pytest.mark.parametrize("seed", [0, 1, 4357, 2**32 - 1])
@pytest.mark.parametrize("limit", [2, 3, 7, 64, 1000])
def test_they_are_those_of_random_state(seed, limit):
    state, expected = seeded(seed), np.random.RandomState(seed)
    assert [below(state, limit) for _ in range(2000)] == [expected.randint(limit) for _ in range(2000)]
