"""Pictures of experiments: the truth, the estimates, their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from simulations.experiments.paper import Experiment

NEARLY_ALL = 0.75  # of the list: what is left is not worth a note
TRUTH, ESTIMATE, FALSE = "#9aa5b1", "#1f5fa8", "#c0392b"


def draw_experiments(experiments: Sequence[Experiment], path: Path) -> None:
    """Write a PNG with one panel for each experiment."""
    figure = Figure(figsize=(11, 3.4 * len(experiments)), layout="constrained")
    panels = figure.subplots(len(experiments), 1, squeeze=False)[:, 0]
    for panel, experiment in zip(panels, experiments, strict=True):
        _draw(panel, experiment)
    figure.savefig(path, dpi=120)


def _draw(panel: Axes, experiment: Experiment) -> None:
    table = experiment.decoding.candidates
    at = np.arange(len(experiment.values))
    panel.bar(at, 100 * experiment.true_shares, color=TRUTH, width=1.0, label="true share")
    for found, color, label in (
        (
            table.detected & (experiment.true_shares > 0),
            ESTIMATE,
            "found, interval after selection",
        ),
        (table.detected & (experiment.true_shares == 0), FALSE, "found, but nobody holds it"),
    ):
        if found.any():
            below = table.shrunken[found] - table.selected_low[found]
            above = table.selected_high[found] - table.shrunken[found]
            panel.errorbar(
                at[found],
                100 * table.shrunken[found],
                yerr=100 * np.maximum(np.stack([below, above]), 0),
                fmt="o" if color == ESTIMATE else "X",  # told apart in grey, too
                markersize=3 if color == ESTIMATE else 6,
                elinewidth=1,
                color=color,
                label=label,
            )
    summary = experiment.decoding.summary
    panel.set_title(
        f"{experiment.name}: {summary.num_detected} of {(experiment.true_shares > 0).sum()} found, "
        f"smallest detectable share {100 * summary.detectable_share:.2g} %",
        loc="left",
        fontsize=10,
    )
    shown = shown_candidates(experiment.true_shares, table.detected)
    left = len(experiment.values) - shown
    panel.set_xlabel(
        "candidates, in the order of the list"
        + (f"; {left} more that nobody holds were not found" if left else "")
    )
    panel.set_ylabel("share, %")
    panel.set_xlim(-1, shown)
    panel.margins(x=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=8, loc="upper right")


def shown_candidates(true_shares: NDArray[np.float64], found: NDArray[np.bool_]) -> int:
    """Number of candidates to plot: up to the last one that is held or found, all if that is
    near the end.

    Args:
        true_shares: (n,).
        found: (n,).
    """
    last = int(np.flatnonzero((true_shares > 0) | found).max(initial=0)) + 1
    return last if last < NEARLY_ALL * len(found) else len(found)
