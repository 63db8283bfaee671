"""density.png: one panel a slot and window, the same colours in all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from decoder.advice import percent
from decoder.density import Density
from decoder.density_words import NOT_APART, window_text
from rappor_core.grid.box import Point

MOST_PANELS = 12
DEPTH = 300  # the faintest colour is at most that much below the strongest
_PANEL_INCHES = 3.6


def write_picture(maps: Sequence[Density], path: FilePath, points: Sequence[Point] = ()) -> None:
    """Draw the maps; where there are more than 12, the last of each slot.

    points: latitude and longitude, marked on each.
    """
    last = {one.location.slot: one for one in maps}
    shown = (list(maps) if len(maps) <= MOST_PANELS else list(last.values()))[:MOST_PANELS]
    columns = min(4 if len(shown) > 6 else 3, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(_PANEL_INCHES * columns + 0.8, _PANEL_INCHES * rows), dpi=120,
                    layout="constrained")  # fmt: skip
    FigureCanvasAgg(figure)
    top = max(float(one.shares[:-1].max()) for one in shown)
    bottom = min(float(one.shares[:-1].min()) for one in shown)
    least = max(top / DEPTH, min(bottom, top / 10))
    norm = LogNorm(vmin=least, vmax=top, clip=True)
    outlines = [[(lon, lat) for lat, lon in ring] for ring in shown[0].places.outlines()]
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for panel, one in zip(axes, shown, strict=False):
        colours = _draw(panel, one, outlines, norm, points)
    for panel in axes[len(shown) :]:
        panel.set_axis_off()
    bar = figure.colorbar(colours, ax=list(axes), shrink=0.7)
    bar.set_label(
        f"share of devices in a cell\n(hatched, without outline:\n{NOT_APART})", fontsize=8
    )
    bar.ax.yaxis.set_major_formatter(lambda share, _: percent(share))
    labelled = range(1, 10) if top <= 10 * least else (2, 5)
    bar.ax.yaxis.set_minor_formatter(
        lambda share, _: percent(share) if _leading_digit(share) in labelled else ""
    )
    bar.ax.tick_params(labelsize=7, which="both")
    figure.savefig(path, format="png", metadata={"Software": None})


def _leading_digit(share: float) -> int:
    return int(f"{share:e}"[0])


def _draw(
    panel: Any,
    one: Density,
    outlines: Sequence[Sequence[Point]],
    norm: LogNorm,
    points: Sequence[Point],
) -> Any:
    colours = PolyCollection(outlines, cmap="viridis", norm=norm, antialiaseds=False,
                             linewidths=one.visible[:-1] * 1.0, edgecolors="black")  # fmt: skip
    colours.set_array(one.shares[:-1])
    colours.set_in_layout(False)  # inside the axes anyway, and slow to measure
    panel.add_collection(colours, autolim=False)
    faint = [[*outline, outline[0]]
             for outline, visible in zip(outlines, one.visible, strict=False)
             if not visible]  # fmt: skip
    if faint:  # hatched as one shape: a hatching for each cell takes a second a panel
        codes = [code for ring in faint for code in _ring_codes(len(ring))]
        shape = PathPatch(Path(np.concatenate(faint), codes), facecolor="none",
                          edgecolor="#ffffff55", linewidth=0, hatch="////")  # fmt: skip
        shape.set_in_layout(False)
        panel.add_artist(shape)
    if points:
        unrolled = one.places.grid.unrolled
        panel.plot([unrolled(p[1]) for p in points], [p[0] for p in points], "r.", markersize=2)
    corners = np.concatenate([np.asarray(outline) for outline in outlines])
    panel.set_xlim(corners[:, 0].min(), corners[:, 0].max())
    panel.set_ylim(corners[:, 1].min(), corners[:, 1].max())
    panel.set_aspect(1 / math.cos(math.radians(float(corners[:, 1].mean()))))
    about = f"{one.num_reports:,} reports, smallest visible share {percent(one.floor)}"
    panel.set_title(f"{one.slot_text}  {window_text(one)}\n{about}", fontsize=8)
    panel.tick_params(labelsize=6)
    panel.locator_params(nbins=4)
    return colours


def _ring_codes(corners: int) -> list[Any]:
    return [Path.MOVETO, *[Path.LINETO] * (corners - 2), Path.CLOSEPOLY]
