# SPDX-License-Identifier: Apache-2.0
"""What an entry takes is read from its annotations, as each version of NumPy and Python writes them."""

from __future__ import annotations

import types
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from detour.base.native.entries import NativeEntry

_OF_NUMPY_2_5 = types.GenericAlias(list, (np.int32,))
"""has the arguments that `NDArray[np.int32]` has from NumPy 2.5 on, where it is an alias by `type`"""


@pytest.mark.parametrize("array", [NDArray[np.int32], np.ndarray[Any, np.dtype[np.int32]], _OF_NUMPY_2_5], ids=str)
def test_arrays_are_of_the_annotated_type(array: Any) -> None:
    def function(count, values):
        pass

    function.__annotations__ = {"count": int, "values": Annotated[array, 2], "return": None}
    number, values, result = NativeEntry(lambda symbol: 0, function).kinds
    assert (number, result) == (int, type(None))
    assert isinstance(values, np.ndarray)
    assert (values.dtype, values.ndim) == (np.dtype(np.int32), 2)
