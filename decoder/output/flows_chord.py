"""Geometry of the chord diagram of zones: an arc a zone, a ribbon a flow between two zones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decoder.output.flows_geojson import drawn_share
from decoder.output.flows_map import flow_title
from rappor_core.reserved import RESERVED

MOST_ZONES = 16
SIZE, OUTER, INNER, LABEL = 420, 180, 168, 195  # units of the view box; radii
GAP = 0.035  # between two arcs, radians
_HEAD = 7.0  # of a ribbon's end: it is shorter by so much than its start
_THIN = 0.004  # of the circle: ribbons thinner than that are not drawn


@dataclass(frozen=True)
class ChordArc:
    """A zone: its arc, its number among all zones with its place, its colour, and its name."""

    path: str
    number: int
    x: float
    y: float
    fill: str
    name: str
    code: str
    title: str


@dataclass(frozen=True)
class ChordRibbon:
    """A flow from one zone to another."""

    path: str
    fill: str
    detected: bool
    title: str


@dataclass(frozen=True)
class Chord:
    """The diagram, in a view box of `size` around its centre. hidden: zones that are not in it."""

    arcs: tuple[ChordArc, ...]
    ribbons: tuple[ChordRibbon, ...]
    hidden: int
    size: int = SIZE


def chord(rows: Sequence[Mapping[str, Any]], level: float) -> Chord | None:
    """Lay out the flows between the largest zones; None without a flow between two.

    An arc is as long as what leaves and what enters its zone; who stays in a zone has no ribbon.

    Args:
        rows: pairs of zones, as zones.csv has them.
        level: of the intervals.
    """
    between = [row for row in rows if not {row["origin"], row["destination"]} & {*RESERVED}]
    zones = _largest(between)
    shares = {
        (row["origin"], row["destination"]): drawn_share(row)
        for row in between
        if row["origin"] != row["destination"] and {row["origin"], row["destination"]} <= {*zones}
    }
    total = sum(shares.values())
    if len(zones) < 2 or total <= 0:
        return None
    scale = (2 * math.pi - GAP * len(zones)) / (2 * total)
    spans, ends = _angles(zones, shares, scale)
    fills = {zone: _fill(number, len(zones)) for number, zone in enumerate(zones)}
    ribbons = [
        ChordRibbon(_ribbon(*ends[pair]), fills[pair[0]], row["detected"], flow_title(row, level))
        for row in sorted(between, key=lambda one: (one["detected"], -drawn_share(one)))
        if (pair := (row["origin"], row["destination"])) in shares
        and (row["detected"] or shares[pair] > _THIN * total)
    ]
    stays = {row["origin"]: row for row in between if row["origin"] == row["destination"]}
    arcs = [
        _arc(number, spans[zone], fills[zone], stays[zone], level)
        for number, zone in enumerate(stays, start=1)
        if zone in spans
    ]
    return Chord(tuple(arcs), tuple(ribbons), len(stays) - len(zones))


def _largest(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The zones with the largest flows from and to them, in the order of the grid."""
    sizes: dict[str, float] = {}
    for row in rows:
        for side in ("origin", "destination"):
            sizes[row[side]] = sizes.get(row[side], 0.0) + drawn_share(row)
    kept = sorted(sizes, key=lambda zone: -sizes[zone])[:MOST_ZONES]
    return [zone for zone in sizes if zone in kept]


Angles = tuple[float, float]


def _angles(
    zones: Sequence[str], shares: Mapping[tuple[str, str], float], scale: float
) -> tuple[dict[str, Angles], dict[tuple[str, str], tuple[Angles, Angles]]]:
    """Start and end of each zone's arc, and of both ends of each flow, in radians from the top."""
    spans: dict[str, Angles] = {}
    starts: dict[tuple[str, str], Angles] = {}
    ends: dict[tuple[str, str], Angles] = {}
    at = 0.0
    for place, zone in enumerate(zones):
        first = at
        # Neighbours on the circle first, so that ribbons cross less.
        for step in range(1, len(zones)):
            other = zones[(place - step) % len(zones)]
            for pair, kept in (((zone, other), starts), ((other, zone), ends)):
                kept[pair] = (at, at + scale * shares.get(pair, 0.0))
                at = kept[pair][1]
        spans[zone] = (first, at)
        at += GAP
    return spans, {pair: (starts[pair], ends[pair]) for pair in shares}


def _ribbon(start: Angles, end: Angles) -> str:
    inner, tip = INNER - 2, INNER - 2 - _HEAD
    middle = sum(end) / 2
    return (
        f"M{_at(inner, start[0])}A{inner},{inner} 0 0 1 {_at(inner, start[1])}"
        f"Q0,0 {_at(tip, end[0])}L{_at(inner, middle)}L{_at(tip, end[1])}"
        f"Q0,0 {_at(inner, start[0])}Z"
    )


def _arc(number: int, span: Angles, fill: str, stay: Mapping[str, Any], level: float) -> ChordArc:
    large = int(span[1] - span[0] > math.pi)
    path = (
        f"M{_at(OUTER, span[0])}A{OUTER},{OUTER} 0 {large} 1 {_at(OUTER, span[1])}"
        f"L{_at(INNER, span[1])}A{INNER},{INNER} 0 {large} 0 {_at(INNER, span[0])}Z"
    )
    middle = sum(span) / 2
    x, y = LABEL * math.sin(middle), -LABEL * math.cos(middle)
    name, code = stay["origin_name"] or stay["origin"], stay["origin"]
    return ChordArc(
        path, number, round(x, 1), round(y + 4, 1), fill, name, code, flow_title(stay, level)
    )


def _fill(number: int, total: int) -> str:
    """A hue of its own, of a lightness that shows on light and dark paper."""
    return f"hsl({360 * number / total:.0f} 52% 50%)"


def _at(radius: float, angle: float) -> str:
    return f"{radius * math.sin(angle):.1f},{-radius * math.cos(angle):.1f}"
