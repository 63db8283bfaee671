"""Pictures of experiments: the truth, the estimates, their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from simulations.experiments.paper import Experiment

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
                fmt="o",
                markersize=3,
                elinewidth=1,
                color=color,
                label=label,
            )
    summary = experiment.decoding.summary
    panel.set_title(
        f"{experiment.name}: {summary.num_detected} of {(experiment.true_shares > 0).sum()} found, "
        f"smallest visible share {100 * summary.visible_share:.2g} %",
        loc="left",
        fontsize=10,
    )
    panel.set_xlabel("candidates, in the order of the list")
    panel.set_ylabel("share, %")
    panel.set_xlim(-1, len(experiment.values))
    panel.margins(x=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=8)
