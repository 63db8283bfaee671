"""density.png: one panel a slot and window, the same colours in all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from decoder.density import Density
from rappor_core.grid import OTHER
from rappor_core.grid_codes import Point

MOST_PANELS = 24
DEPTH = 300  # the faintest colour is that much below the strongest
_PANEL_INCHES = 3.6


def write_picture(maps: Sequence[Density], path: Path, points: Sequence[Point] = ()) -> None:
    """Draw the maps, the last 24 at most. points: latitude and longitude, marked on each."""
    shown = list(maps)[-MOST_PANELS:]
    columns = min(4, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(_PANEL_INCHES * columns + 0.8, _PANEL_INCHES * rows), dpi=120,
                    layout="constrained")  # fmt: skip
    FigureCanvasAgg(figure)
    top = max(float(one.shares[:-1].max()) for one in shown)
    norm = LogNorm(vmin=top / DEPTH, vmax=top)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, one in zip(axes, shown, strict=False):
        colours = _draw(panel, one, norm, top / DEPTH, points)
    for panel in axes[len(shown) :]:
        panel.set_axis_off()
    bar = figure.colorbar(colours, ax=list(axes), shrink=0.7)
    bar.set_label("share of devices (hatched: not told apart from zero)", fontsize=8)
    figure.savefig(path, metadata={"Software": None})


def _draw(panel: Any, one: Density, norm: LogNorm, lowest: float, points: Sequence[Point]) -> Any:
    location = one.metric.location
    assert location is not None  # noqa: S101 (`density` has checked it)
    cells = [i for i, cell in enumerate(one.cells) if cell != OTHER]
    outlines = [[(lon, lat) for lat, lon in location.grid.outline(one.cells[i])] for i in cells]
    colours = PolyCollection(outlines, cmap="viridis", norm=norm, linewidths=0)
    colours.set_array(one.shares[cells].clip(lowest))
    panel.add_collection(colours)
    faint = [outline for i, outline in zip(cells, outlines, strict=True) if not one.visible[i]]
    panel.add_collection(PolyCollection(
        faint, facecolors="none", edgecolors="#ffffff55", linewidths=0, hatch="////"
    ))  # fmt: skip
    if points:
        panel.plot([p[1] for p in points], [p[0] for p in points], "r.", markersize=2)
    panel.autoscale_view()
    middle = math.radians((location.grid.box.south + location.grid.box.north) / 2)
    panel.set_aspect(1 / math.cos(middle))
    days = "" if one.first_day is None else f"\n{one.first_day} to {one.last_day}"
    panel.set_title(f"{location.slot}{days}", fontsize=8)
    panel.tick_params(labelsize=6)
    return colours
