# SPDX-License-Identifier: Apache-2.0
"""Linear programmes as HiGHS takes them, and assignments by SciPy, which only some plans need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from detour.base.arrays import FloatArray, Int64Array
from detour.base.extras import require

if TYPE_CHECKING:
    import highspy

Floats = FloatArray


def programme(
    costs: Floats, rows: tuple[Floats, Floats], matrix: tuple[Int64Array, Int64Array, Floats], *,
    maximise: bool = False, integers: int = 0,
) -> highspy.HighsLp:  # fmt: skip
    """The programme over columns x >= 0 with rows[0] <= A x <= rows[1] in which costs x is least (or most). `costs`:
    (columns,). `rows`: two of (rows,), infinite where there is no bound. `matrix`: A by columns, (columns + 1,) where
    each begins, (entries,) rows, (entries,) values. `integers`: the first so many columns are."""
    # Here, so that whoever plans nothing by it does not wait for it. With OR-Tools in the same process it would have
    # to be imported first.
    import highspy

    count = len(costs)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = count, len(rows[0])
    model.sense_ = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
    model.col_cost_ = costs
    model.col_lower_, model.col_upper_ = np.zeros(count), np.full(count, np.inf)
    model.row_lower_, model.row_upper_ = rows
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = matrix
    if integers:
        kinds = highspy.HighsVarType
        model.integrality_ = [kinds.kInteger] * integers + [kinds.kContinuous] * (count - integers)
    return model


def solver(**options: bool | int | float | str) -> highspy.Highs:
    """HiGHS on one core, without its messages; `options`: its others, by their names."""
    import highspy

    model = highspy.Highs()
    for name, value in ({"output_flag": False, "threads": 1} | options).items():
        model.setOptionValue(name, value)
    return model


def heaviest_assignment(weights: np.ndarray) -> tuple[Int64Array, Int64Array]:
    """(n,) rows and (n,) columns of `weights`, (n, n), each once, whose sum is the largest. Raises `DetourError`: SciPy
    is not installed."""
    require("scipy", "SciPy", "plan", "this plan")
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(weights, maximize=True)
