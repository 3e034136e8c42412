# SPDX-License-Identifier: Apache-2.0
"""What figures of experiments share: a canvas without a display, and files that are the same for the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detour.base.errors import DetourError


def canvas(rows: int, columns: int, width: float = 4.3, height: float = 3.4) -> tuple[Any, Any, Any]:
    """(matplotlib.pyplot, figure, axes as an array of rows) without a display; inches of each axis.

    Raises:
        DetourError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise DetourError("plots need matplotlib: pip install 'detour-fabric[plot]'") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    size = width * columns, height * rows
    return plt, *plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")


def row(columns: int, width: float = 4.3) -> tuple[Any, Any, Any]:
    """(matplotlib.pyplot, figure, list of axes) of one row.

    Raises:
        DetourError: matplotlib is not installed.
    """
    plt, figure, axes = canvas(1, columns, width)
    return plt, figure, axes[0]


def save(plt: Any, figure: Any, file: Path) -> None:
    """Writes a figure and closes it.

    Raises:
        DetourError: the file cannot be written, or its suffix is none of a plot.
    """
    if file.suffix not in (".png", ".svg", ".pdf"):
        raise DetourError(f"{file}: plots are written as .png, .svg or .pdf")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # No dates and fixed names inside: the same numbers give the same file.
        plt.rcParams["svg.hashsalt"] = "detour"
        metadata = {"Date": None} if file.suffix == ".svg" else {}
        figure.savefig(file, dpi=110, metadata=metadata)
    except OSError as error:
        raise DetourError(f"{file}: {error.strerror}") from None
    finally:
        plt.close(figure)
