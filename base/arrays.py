# SPDX-License-Identifier: Apache-2.0
"""Types of arrays that planners and hosts hand each other, and the processor's cache line."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Int32Array: TypeAlias = NDArray[np.int32]
Int64Array: TypeAlias = NDArray[np.int64]
UInt8Array: TypeAlias = NDArray[np.uint8]

CACHE_LINE = 64
"""Bytes. Tables that every packet touches have rows of whole lines."""
