"""Options that an analyst chooses, each with one default; frozen and validated."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, get_args

from decoder.candidates.files import Weights
from decoder.errors import CandidatesError, DecodeError
from decoder.inference.multiple_testing import CORRECTIONS, WEIGHTED, Correction
from rappor_core.aggregate import MAX_COUNT
from rappor_core.risk import CROWD

Method = Literal["cavity", "lasso"]
MapMethod = Literal["field", "simplex"]
Operation = Literal["decode", "series", "compare"]

DEFAULT_METHOD: Method = "cavity"
DEFAULT_MAP_METHOD: MapMethod = "field"
DEFAULT_CORRECTION: Correction = "fdr"
DEFAULT_ALPHA = 0.05
DEFAULT_LEVEL = 0.95
DEFAULT_CROWD = CROWD
DEFAULT_MIN_KM = 0.0
DEFAULT_TOP = 200
DEFAULT_AREA_NAME = "name"


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The options common to all decodings. Raises DecodeError if a value is invalid."""

    alpha: float = DEFAULT_ALPHA  # Level of the correction for multiplicity, in (0, 1)
    level: float = DEFAULT_LEVEL  # Level of the intervals, in (0, 1)
    repeats: float | None = None  # rho = sum r^2 / sum r over devices; None for the allowed maximum

    def __post_init__(self) -> None:
        for name in ("alpha", "level"):
            if not 0 < getattr(self, name) < 1:
                raise DecodeError(f"{name} = {getattr(self, name)!r} is not between 0 and 1")
        repeats = 1.0 if self.repeats is None else self.repeats
        if not (math.isfinite(repeats) and repeats >= 1):
            raise DecodeError(f"repeats = {self.repeats!r} is not a number of 1 or more")
        if repeats > MAX_COUNT:
            raise DecodeError(
                f"repeats = {self.repeats!r} is above {MAX_COUNT:,}, all reports that an aggregate "
                "can count; give sum r^2 / sum r, where device i sent r_i of them"
            )


@dataclass(frozen=True)
class DecodeOptions(Levels):
    """The options for a decoding. Raises DecodeError if a value is invalid."""

    method: Method = DEFAULT_METHOD  # Ignored for metrics with one bit per value
    correction: Correction = DEFAULT_CORRECTION
    largest_p: float = 1.0  # The maximum p-value of a detected value
    true_shares: Mapping[str, float] | None = None  # value -> share, if known, to show alongside
    # Whether all candidates take part in the fit of method `cavity`, if affordable. If not, only
    # probable candidates do, which is much faster with many bits and candidates, but errors are up
    # to 10 % larger if many small shares fall on few bits.
    full_fit: bool = True
    without_cohorts: tuple[int, ...] = ()  # The numbers of cohorts to exclude
    weights: Weights | None = None  # How to divide the level among candidates, chosen in advance

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in get_args(Method):
            raise DecodeError(f"method = {self.method!r} is not one of {get_args(Method)}")
        if self.correction not in CORRECTIONS:
            raise DecodeError(
                f"correction = {self.correction!r} is not one of {', '.join(CORRECTIONS)}"
            )
        if self.weights is not None and self.correction not in WEIGHTED:
            raise DecodeError(
                f"correction = {self.correction!r} takes no weights: they divide the level of "
                f"{', '.join(WEIGHTED)}"
            )
        if not 0 < self.largest_p <= 1:
            raise DecodeError(f"largest_p = {self.largest_p!r} is not above 0 and at most 1")


@dataclass(frozen=True)
class CandidateChoice:
    """The values to look for; by default, the metric's own values.

    Choose only one of a file (and its column), numbers (first, last, step), dates, and
    google/rappor's map.csv. Raises CandidatesError if there are several."""

    file: Path | None = None
    column: str | None = None
    numbers: tuple[int, ...] | None = None
    dates: tuple[date, ...] | None = None
    map_file: Path | None = None

    def __post_init__(self) -> None:
        if [self.file, self.numbers, self.dates, self.map_file].count(None) < 3:
            raise CandidatesError("give one of a file of candidates, numbers, dates and a map")


@dataclass(frozen=True)
class MapOptions:
    """The options for location maps. Raises DecodeError if the method is unknown."""

    # `field` (smooth if the data are) or `simplex` (the nearest positive shares)
    method: MapMethod = DEFAULT_MAP_METHOD
    slots: tuple[str, ...] = ()  # The slots to map; empty for all
    region: Path | None = None  # A file of polygons whose cells are shown
    points: Path | None = None  # A file of points to draw
    base: Path | None = None  # A file of shapes to draw
    areas: Path | None = None  # A file of named areas
    area_name: str = DEFAULT_AREA_NAME  # The property that contains an area's name
    every_window: bool = False  # Write all windows to the GeoJSON, not only each slot's last

    def __post_init__(self) -> None:
        check_map_method(self.method)


@dataclass(frozen=True)
class FlowOptions:
    """The options for displaying flows."""

    min_km: float = DEFAULT_MIN_KM  # The minimum distance between the centers
    top: int = DEFAULT_TOP  # The number of undetected flows to show, by largest best-fit share
    base: Path | None = None  # A file of the user's districts or stations
    known: Path | None = None  # A file of a known matrix


def check_map_method(method: str) -> None:
    """Raise DecodeError if the map method is unknown."""
    if method not in get_args(MapMethod):
        raise DecodeError(f"method = {method!r} is not one of {get_args(MapMethod)}")
