"""Options that an analyst chooses, with their one default each; frozen and checked."""

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
    """The options that every decoding has. Raises DecodeError with a bad value.

    alpha: level of the correction for multiplicity, in (0, 1).  level: of the intervals, in (0, 1).
    repeats: rho = sum r^2 / sum r over devices, where device i sent r_i of the reports; r when
        each sent r. None: the most that the metric's definition allows in the window.
    """

    alpha: float = DEFAULT_ALPHA
    level: float = DEFAULT_LEVEL
    repeats: float | None = None

    def __post_init__(self) -> None:
        """Check each choice alone."""
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
    """Options of a decoding. Raises DecodeError with a bad value.

    method: metrics with one bit a value need none.  largest_p: never call a value detected whose
    own p-value is above this.  true_shares: value -> share, where known, to be shown alongside.
    weights: how the level is divided among the candidates, declared before the counts were seen.
    full_fit: where it is affordable, let all candidates take part in the fit of method `cavity`.
        Without it only the probable ones do: much quicker where bits and candidates are many, with
        errors up to a tenth larger where many small shares fall on few bits.
    """

    method: Method = DEFAULT_METHOD
    correction: Correction = DEFAULT_CORRECTION
    largest_p: float = 1.0
    true_shares: Mapping[str, float] | None = None
    full_fit: bool = True
    without_cohorts: tuple[int, ...] = ()
    weights: Weights | None = None

    def __post_init__(self) -> None:
        """Check each choice alone."""
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
    """The values to look for: one of a file (and its column), numbers (first, last, step), dates
    and google/rappor's map.csv, or the metric's own. Raises CandidatesError for more than one."""

    file: Path | None = None
    column: str | None = None
    numbers: tuple[int, ...] | None = None
    dates: tuple[date, ...] | None = None
    map_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what would be ignored."""
        if [self.file, self.numbers, self.dates, self.map_file].count(None) < 3:
            raise CandidatesError("give one of a file of candidates, numbers, dates and a map")


@dataclass(frozen=True)
class MapOptions:
    """How a location is mapped and drawn. Raises DecodeError for an unknown method.

    method: `field` (smooth where the data are) or `simplex` (the nearest positive shares).
    slots: those wanted, none for all.  region: a file of polygons, whose cells are shown.  points,
    base: files of what to draw.  areas: a file of named areas; area_name: the property that names
    them.  every_window: all windows in the GeoJSON, not only the last of each slot.
    """

    method: MapMethod = DEFAULT_MAP_METHOD
    slots: tuple[str, ...] = ()
    region: Path | None = None
    points: Path | None = None
    base: Path | None = None
    areas: Path | None = None
    area_name: str = DEFAULT_AREA_NAME
    every_window: bool = False

    def __post_init__(self) -> None:
        """Check the method."""
        check_map_method(self.method)


@dataclass(frozen=True)
class FlowOptions:
    """Which flows are shown, and what they are drawn on.

    min_km: between two centers.  top: how many flows that are not detected are shown, too, the
    largest guesses.  base: a file of the user's districts or stations.  known: of a known matrix.
    """

    min_km: float = DEFAULT_MIN_KM
    top: int = DEFAULT_TOP
    base: Path | None = None
    known: Path | None = None


def check_map_method(method: str) -> None:
    """Raise DecodeError for a method that makes no map."""
    if method not in get_args(MapMethod):
        raise DecodeError(f"method = {method!r} is not one of {get_args(MapMethod)}")
