"""density.png: one panel a slot and window, the same colours in all, on paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import ListedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from decoder.density.areas import AreaShares
from decoder.density.maps import Density
from decoder.grid_cells import unrolled
from decoder.output.basemap import BaseLayer, View, area_outlines, surroundings
from decoder.output.density_text import NONE_DETECTED, NOT_APART, window_text
from decoder.output.palette import (
    DETECTED_FROM,
    THEMES,
    colours,
    drawn_shares,
    positions,
    top_share,
)
from decoder.tables.format import percent, short
from rappor_core.grid.box import Point

MOST_PANELS = 12
MOST_NAMED = 20  # areas
_PANEL_INCHES = 4.2
_LIGHT = THEMES["light"]


def write_picture(
    maps: Sequence[Density],
    path: FilePath,
    points: Sequence[Point] = (),
    base: BaseLayer | None = None,
    areas: Sequence[AreaShares] = (),
) -> None:
    """Draw the maps as a PNG, whatever the user's matplotlib settings are.

    Of more than 12 maps only the last of each slot is drawn.

    points: latitude and longitude, marked on each.  base: the user's streets and districts.
    areas: shares of named areas in each of the maps, or none.
    """
    with style.context("default", after_reset=True):
        figure = _figure(maps, points, base, areas)
        figure.savefig(path, format="png", metadata={"Software": None})


def _figure(
    maps: Sequence[Density],
    points: Sequence[Point],
    base: BaseLayer | None,
    areas: Sequence[AreaShares],
) -> Figure:
    last = {one.location.slot: i for i, one in enumerate(maps)}
    chosen = (range(len(maps)) if len(maps) <= MOST_PANELS else list(last.values()))[:MOST_PANELS]
    shown = [maps[i] for i in chosen]
    columns = min(4 if len(shown) > 6 else 3, len(shown))
    rows = math.ceil(len(shown) / columns)
    outlines = [[(lon, lat) for lat, lon in ring] for ring in shown[0].places.outlines()]
    corners = np.concatenate([np.asarray(outline) for outline in outlines])
    view = View(*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist()).wider(1.03)
    stretch = 1 / math.cos(math.radians(float(corners[:, 1].mean())))
    shape = (view.north - view.south) * stretch / (view.east - view.west)
    wide = _PANEL_INCHES if len(shown) > 1 else 2 * _PANEL_INCHES
    high = min(max(wide * shape, wide / 3), 2 * wide) + 0.6
    figure = Figure(figsize=(wide * columns + 0.9, high * rows), dpi=120, layout="constrained",
                    facecolor=_LIGHT["paper"])  # fmt: skip
    FigureCanvasAgg(figure)
    top = top_share([drawn_shares(one) for one in shown])
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    around, own = (
        surroundings(view),
        (base or BaseLayer()).shifted(partial(unrolled, shown[0].places.grid)),
    )
    for panel, one in zip(axes, shown, strict=False):
        panel.set(xlim=(view.west, view.east), ylim=(view.south, view.north))
        panel.set_aspect(stretch)
        _draw(panel, one, outlines, top, around, own)
        _mark(panel, one, points)
    for panel, found in zip(axes, [areas[i] for i in chosen] if areas else (), strict=False):
        _name(panel, found, area_outlines(found.areas, partial(unrolled, shown[0].places.grid)))
    for panel in axes[len(shown) :]:
        panel.set_axis_off()
    if any(one.detected[: one.num_cells].any() for one in shown):
        _scale(figure, list(axes), top)
    else:
        figure.supxlabel(f"Pale: {NOT_APART}", fontsize=8)
    return figure


def _scale(figure: Figure, axes: list[Any], top: float) -> None:
    scale = ListedColormap(colours(np.linspace(DETECTED_FROM, 1, 256)))
    known = ScalarMappable(PowerNorm(0.5, 0, top), scale)
    bar = figure.colorbar(known, ax=axes, shrink=0.7)
    bar.set_label(
        f"share of devices in a cell that is detected (outlined)\npaler: {NOT_APART}",
        fontsize=8,
    )
    bar.ax.yaxis.set_major_formatter(lambda share, _: percent(share))
    bar.ax.tick_params(labelsize=7)


def _draw(
    panel: Any,
    one: Density,
    outlines: Sequence[Sequence[Point]],
    top: float,
    around: dict[str, Any],
    base: BaseLayer,
) -> None:
    panel.set_facecolor(_LIGHT["water"])
    _add(panel, PolyCollection(around["land"], facecolors=_LIGHT["land"], linewidths=0))
    _add(panel, PolyCollection(around["lakes"], facecolors=_LIGHT["water"], linewidths=0))
    places = positions(one, top)
    faces = np.column_stack([colours(places), places > 0])  # nothing there: the ground shows
    widths = one.detected[: one.num_cells] * 0.8
    cells = PolyCollection(outlines, facecolors=faces, antialiaseds=False,
                           linewidths=widths, edgecolors=_LIGHT["ink"])  # fmt: skip
    _add(panel, cells)
    own = [*base.lines, *(ring for _, rings in base.areas for ring in rings)]
    for lines, colour, width in ((around["rivers"], "coast", 0.5), (around["coast"], "coast", 0.8),
                                 (around["borders"], "base", 0.9), (own, "base", 0.7)):  # fmt: skip
        _add(panel, LineCollection(lines, colors=_LIGHT[colour], linewidths=width))
    for name, x, y in around["cities"]:
        panel.plot([x], [y], ".", color=_LIGHT["ink"], markersize=4)
        text = panel.annotate(name, (x, y), (4, 0), textcoords="offset points", fontsize=8,
                              va="center", color=_LIGHT["ink"], clip_on=True)  # fmt: skip
        text.set_path_effects([withStroke(linewidth=2, foreground=_LIGHT["paper"])])
        text.set_in_layout(False)


def _name(panel: Any, found: AreaShares, outlines: Sequence[Any]) -> None:
    """Draw areas; where they are few, with their names and, where detected, shares."""
    rings = [ring for parts in outlines for ring in parts]
    _add(panel, LineCollection(rings, colors=_LIGHT["ink"], linewidths=1.2, linestyles="dashed"))
    if len(outlines) > MOST_NAMED:
        return
    for parts, name, share, detected in zip(
        outlines, found.areas.names, found.estimate, found.detected, strict=True
    ):
        x, y = np.mean(parts[0][:-1], axis=0)
        said = f"{short(name, 24)}\n{percent(float(share))}" if detected else short(name, 24)
        text = panel.text(x, y, said, fontsize=7, ha="center", va="center", clip_on=True,
                          color=_LIGHT["ink"], parse_math=False)  # fmt: skip
        text.set_path_effects([withStroke(linewidth=2, foreground=_LIGHT["paper"])])
        text.set_in_layout(False)


def _add(panel: Any, shapes: Any) -> None:
    shapes.set_in_layout(False)  # inside the axes anyway, and slow to measure
    panel.add_collection(shapes, autolim=False)


def _mark(panel: Any, one: Density, points: Sequence[Point]) -> None:
    if points:
        grid = one.places.grid
        panel.plot([unrolled(grid, p[1]) for p in points], [p[0] for p in points], ".",
                   color=_LIGHT["mark"], markersize=3)  # fmt: skip
    if not one.detected[: one.num_cells].any():
        said = panel.text(0.5, 0.5, NONE_DETECTED, transform=panel.transAxes, fontsize=9,
                          ha="center", va="center", color=_LIGHT["ink"])  # fmt: skip
        said.set_path_effects([withStroke(linewidth=3, foreground=_LIGHT["paper"])])
    about = (
        f"{one.num_reports:,} reports, {percent(one.detectable_share)} is detected 8 times in 10"
    )
    panel.set_title(f"{one.slot_text}  {window_text(one)}\n{about}", fontsize=8)
    panel.tick_params(labelsize=6)
    panel.locator_params(nbins=4)
