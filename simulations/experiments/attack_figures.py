"""Draw the pictures of `longitudinal` and `poisoning`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from simulations.experiments import longitudinal, poisoning
from simulations.experiments.figure_style import FAINT, LINES, new_figure, save, style

HIGHEST = 9.0  # nats on the axis: what nothing bounds goes on above


def draw_longitudinal(rows: list[longitudinal.Row], path: Path) -> None:
    """Draw three panels: epsilon declared and reached, the attacker's advantage, the attacker's
    belief."""
    figure = new_figure(
        "What all reports of one device disclose, over the periods",
        "An adversary who holds every report and the parameters decides which of two values the "
        f"device has. All modes but the last promise {rows[0].life:.2f} nats for life.",
        (15, 5.8),
    )
    left, middle, right = figure.subplots(1, 3)
    names = list(dict.fromkeys(row.mode for row in rows))
    for i, name in enumerate(names):
        some = [row for row in rows if row.mode == name]
        at = [row.periods for row in some]
        _draw_epsilon(left, some, LINES[i])
        middle.plot(at, [row.advantage for row in some], label=name, **LINES[i])
        believed = [100 * row.posterior_99 for row in some]
        right.plot(at, believed, **LINES[i])
        right.plot(at, [100 * row.posterior_median for row in some],
                   **{**LINES[i], "linewidth": 0.8, "markersize": 2})  # fmt: skip
    left.axhline(rows[0].life, color="black", linewidth=0.9)
    left.annotate("promised for life", (365, rows[0].life + 0.12), fontsize=9, ha="right")
    left.set_ylim(0, HIGHEST)
    style(left, "Epsilon: declared (lines), proven by the attack (marks)", "periods", "nats")
    style(middle, "Advantage of the best guess", "periods", "share right - share wrong")
    middle.set_ylim(0, 1.02)
    style(
        right, "Belief in the true value, from 1 %", "periods", "per cent (1 in 100; thin: median)"
    )
    right.set_ylim(0, 102)
    for panel in (left, middle, right):
        panel.set_xscale("log")
        ticks = (1, 7, 30, 180, 365)
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.minorticks_off()
    figure.legend(*middle.get_legend_handles_labels(), loc="outside lower center", ncols=6,
                  frameon=False, fontsize=10)  # fmt: skip
    save(figure, path)


def _draw_epsilon(panel: Axes, rows: list[longitudinal.Row], line: Any) -> None:
    at = [row.periods for row in rows]
    panel.plot(at, [row.declared for row in rows], **{**line, "marker": ""})
    panel.plot(at, [row.bound for row in rows], markersize=5, **{**line, "linestyle": "none"})


def draw_poisoning(rows: list[poisoning.Row], path: Path) -> None:
    """Draw two panels: how far forged reports move an estimate, and which warnings show them."""
    figure = new_figure(
        "Forged reports: how far they move an estimate, and what detects them",
        "A value that nobody holds, on the paper's exponential population (k = 128, h = 2, m = 16, "
        f"f = p = .5, q = .75), {rows[0].runs} runs each.",
        (15, 6.2),
    )
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.2])
    forged = [row for row in rows if row.fraction > 0]
    for i, way in enumerate(poisoning.WAYS):
        some = [row for row in forged if row.way == way and row.true_found >= 1]
        if not some:
            continue
        at = np.array([row.fraction for row in some])
        shifts, errors = np.array([(row.shift, row.error) for row in some]).T
        low = np.minimum(1.96 * errors, np.maximum(shifts - 1e-4, 0))
        left.errorbar(
            100 * at, 100 * np.maximum(shifts, 1e-4), yerr=100 * np.stack([low, 1.96 * errors]),
            capsize=2, label=way, **LINES[i],
        )  # fmt: skip
    ends = np.array([0.05, 20.0])
    theory = f"{poisoning.lever():g} holders a report, theory"
    left.plot(ends, ends * poisoning.lever(), color=FAINT, linewidth=0.8, label=theory)
    left.set(xscale="log", yscale="log", ylim=(0.05, 60), xlim=(0.07, 14))
    ticks, ups = (0.1, 0.3, 1, 3, 10), (0.1, 1, 10)
    left.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    left.set_yticks(ups, [f"{tick:g}" for tick in ups])
    left.minorticks_off()
    style(left, "What the estimate of the value becomes (means, 95 %)", "forged reports, % of all",
          "estimated share of the value, %")  # fmt: skip
    left.legend(frameon=False, fontsize=9, loc="upper left")
    _draw_seen(right, forged)
    save(figure, path)


def _draw_seen(panel: Axes, rows: list[poisoning.Row]) -> None:
    """A table of cells: found, warned, refused, and what `forged` says."""
    fractions = sorted({row.fraction for row in rows})
    by = {(row.way, row.fraction): row for row in rows}
    for i, way in enumerate(poisoning.WAYS):
        for j, fraction in enumerate(fractions):
            row = by[way, fraction]
            seen = max(row.warned, row.refused)
            panel.add_patch(_box(j, i, seen))
            told = "" if np.isnan(row.explained) else f"\nbound {100 * row.explained:.2g} %"
            name = "nothing found" if row.true_found < 1 else f"found {row.found:.0%}{told}"
            dark = "white" if seen > 0.6 else "black"
            panel.text(
                j, i, f"{name}\nwarned {row.warned:.0%}\n"
                f"refused {row.refused:.0%}", ha="center", va="center", fontsize=8.5, color=dark,
            )  # fmt: skip
    panel.set_xlim(-0.5, len(fractions) - 0.5)
    panel.set_ylim(len(poisoning.WAYS) - 0.5, -0.5)
    panel.set_xticks(range(len(fractions)), [f"{100 * f:g} %" for f in fractions])
    panel.set_yticks(range(len(poisoning.WAYS)), [w.replace(", ", ",\n") for w in poisoning.WAYS])
    title = "Found; bound: least share forged that explains it; dark: warned of or refused"
    style(panel, title, "forged reports, % of all", "")
    panel.grid(visible=False)


def _box(j: int, i: int, seen: float) -> Any:
    grey = f"{0.97 - 0.7 * seen:.3f}"
    return Rectangle((j - 0.48, i - 0.46), 0.96, 0.92, facecolor=grey, edgecolor="white")
