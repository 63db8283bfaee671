"""One style for the pictures of the experiments: for a slide, and readable in grey."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, FAINT, TRUTH = "#1c2430", "#566172", "#b9c2cc"
LINES: tuple[Mapping[str, Any], ...] = (  # differ in darkness, dashes and marks, too
    {"color": "#12355b", "linestyle": "-", "marker": "o"},
    {"color": "#c4622d", "linestyle": "--", "marker": "s"},
    {"color": "#3f8f5f", "linestyle": "-.", "marker": "^"},
    {"color": "#8e8e8e", "linestyle": ":", "marker": "D"},
    {"color": "#7b3f8c", "linestyle": (0, (5, 1)), "marker": "v"},
    {"color": "#000000", "linestyle": (0, (1, 1)), "marker": "x"},
)
HATCHES = ("", "//", "..", "xx")


def new_figure(title: str, subtitle: str, size: tuple[float, float]) -> Figure:
    """Make a figure with title and subtitle above all panels. size: inches."""
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(f"{title}\n", x=0.01, ha="left", fontsize=15, fontweight="bold", color=INK)
    figure.text(0.01, 0.945, subtitle, ha="left", va="top", fontsize=10.5, color=FAINT)
    return figure


def style(panel: Axes, title: str, across: str, up: str) -> None:
    """Title and labels with units; no frame but the two axes."""
    panel.set_title(title, loc="left", fontsize=11, color=INK)
    panel.set_xlabel(across, fontsize=10)
    panel.set_ylabel(up, fontsize=10)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="#e3e7ec", linewidth=0.7)
    panel.set_axisbelow(True)


def save(figure: Figure, path: Path) -> None:
    """Write the figure to a file."""
    figure.savefig(path, dpi=130)
