"""`Flow`: the settings of a metric of kind `flow`, which counts moves between usual cells.

A device has a pair of usual cells, either for two slots of one period or for one slot in two
periods. It answers one question about the pair, and its cohort determines which question. The two
sides of a pair are indices: 0 to K - 1 for a cell of the fine level, K for a place outside the grid
(`other`), and K + 1 for no data (`no_data`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, get_args

from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen
from rappor_core.grid.box import RESERVED, Point
from rappor_core.grid.grid import PAIR_SEPARATOR, Grid
from rappor_core.hashing import mmh3_positions
from rappor_core.metrics.location import (
    DEFAULT_GAP_MINUTES,
    MAX_GAP_MINUTES,
    MAX_WINDOW,
    Slot,
    check_no_overlap,
    slot_at,
)
from rappor_core.params import RapporParams

FlowMode = Literal["once", "window"]

HOME, WORK, DISTANCE, ZONES, PAIR = "home", "work", "distance", "zones", "pair"
QUESTIONS = (HOME, WORK, DISTANCE, ZONES, PAIR)
COHORT_STEP = 10  # any 10 consecutive cohorts cover all questions, in fixed proportions
_ASKED = (HOME, HOME, WORK, WORK, DISTANCE, ZONES, ZONES, PAIR, PAIR, PAIR)

MAX_CELLS = 200
MAX_ZONES = 64
MAX_SPREAD = 1_000  # periods
MAX_LAG = 60  # periods
MAX_SYMBOLS = 64
EARTH_RADIUS = 6_371_000.0  # meters, for a spherical earth
METERS = 1_000


def question_of(cohort: int) -> str:
    """Return the question that the devices of a cohort answer, one of `QUESTIONS`."""
    return _ASKED[cohort % COHORT_STEP]


class Flow(Frozen):
    """The settings that convert a device's two usual cells to one of g symbols.

    Raises ParameterError, which repeats the bad value.
    """

    grid: Grid  # The grid, with two levels: zones and cells. Zones are the parents of cells.
    # origin, destination: The slots of the pair, `from` and `to` in files.
    origin: Slot
    destination: Slot
    # The upper edges of the distance bands, increasing; pairs of equal cells are a separate band.
    bands_km: tuple[float, ...]
    # `once` (one answer over the device's lifetime) or `window` (one answer in each `window`
    # periods).
    mode: FlowMode
    # The number of periods over which devices spread their only answer in mode `once`. Each device
    # derives its period from its secret.
    spread: int = 1
    # The number of periods in a block in mode `window`. A device answers for one period of each
    # block, drawn again for each block.
    window: int = 0
    # The number of periods between both sides of a pair from one slot; 0 if there are two slots.
    lag: int = 0
    # The maximum time that one fix counts for, on the device.
    max_gap_minutes: int = DEFAULT_GAP_MINUTES

    def __post_init__(self) -> None:
        if self.mode not in get_args(FlowMode):
            raise ParameterError(f"mode = {shown(self.mode)} is not one of once, window")
        self._check_numbers()
        self._check_slots()
        self._check_bands()
        self._check_grid()

    def _check_numbers(self) -> None:
        once = self.mode == "once"
        for key, least, most, why in (
            ("spread", 1, MAX_SPREAD if once else 1, "mode 'once' takes 1 to 1,000 periods, mode "
             "'window' none"),
            ("window", 0 if once else 2, 0 if once else MAX_WINDOW, "mode 'window' needs 2 to "
             "1,000 periods, mode 'once' none"),
            ("lag", 0, MAX_LAG, f"it is a number of periods from 0 to {MAX_LAG}"),
            ("max_gap_minutes", 1, MAX_GAP_MINUTES, f"it is from 1 to {MAX_GAP_MINUTES}"),
        ):  # fmt: skip
            value = getattr(self, key)
            if type(value) is not int or not least <= value <= most:
                raise ParameterError(f"{key} = {shown(value)}: {why}")

    def _check_slots(self) -> None:
        """Require either two slots without a common hour, or one slot and a lag."""
        origin, destination = self.origin, self.destination
        if (origin == destination) != (self.lag > 0):
            raise ParameterError(
                f"lag = {self.lag} with from = {str(origin)!r}, to = {str(destination)!r}: two "
                "periods of one slot are apart by lag, 1 or more; two slots of one period have none"
            )
        if origin == destination:
            return
        if origin.name == destination.name:
            raise ParameterError(f"from and to are both named {origin.name!r}; name them apart")
        check_no_overlap((origin, destination))

    def _check_bands(self) -> None:
        edges = self.bands_km
        numbers = [edge for edge in edges if type(edge) is float and 0 < edge <= 40_000]
        meters = self._band_meters
        if not edges or len(numbers) < len(edges) or meters != sorted({*meters} - {0}):
            raise ParameterError(
                f"bands_km = {shown(list(edges))} is not a list of kilometres that rise, above 0, "
                "by a metre or more"
            )

    def _check_grid(self) -> None:
        levels = self.grid.levels
        if len(levels) != 2:
            raise ParameterError(f"levels = {list(levels)}: give two, of zones and of cells")
        about = self.grid.system.count_in_box(self.grid.box, levels[1])
        if about > 100 * MAX_CELLS or len(self.cells) > MAX_CELLS:  # far too many to list
            cells = about if about > 100 * MAX_CELLS else len(self.cells)
            raise ParameterError(
                f"{cells:,} cells at level {levels[1]}, {MAX_CELLS} at most: use a smaller box or "
                "a coarser level"
            )
        if len(self.cells) < 2:
            raise ParameterError(f"only one cell at level {levels[1]}; use a finer level")
        if len(self.zones) > MAX_ZONES:
            raise ParameterError(
                f"{len(self.zones)} zones at level {levels[0]}, {MAX_ZONES} at most: use a coarser "
                "level"
            )

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Return the two slots, or the single slot of a flow with a lag."""
        return (self.origin,) if self.lag else (self.origin, self.destination)

    @property
    def pairs(self) -> bool:
        """Return False, because apps never record trips: the device derives the pair from fixes."""
        return False

    def slot_at(self, hour: int, weekend: bool) -> str | None:
        """Return the slot that contains an hour.

        Args:
            hour: The hour, 0 to 23, local time.
            weekend: Whether the day is on a weekend.

        Returns:
            The name of the slot, or None if no slot contains the hour.
        """
        return slot_at(self.slots, hour, weekend)

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """Return the names of the K cells of the fine level, in the order of the grid."""
        return self.grid.cells(self.grid.finest)

    @cached_property
    def zones(self) -> tuple[str, ...]:
        """Return the names of the Z zones, the parents of the cells, in the order of the grid."""
        system, level = self.grid.system, self.grid.levels[0]
        codes = {system.parent(code, self.grid.finest, level) for code in self._codes}
        return tuple(system.name(code, level) for code in sorted(codes))

    @cached_property
    def zone_of(self) -> tuple[int, ...]:
        """Return, for each of the K cells in order, the index of its zone."""
        index = {name: zone for zone, name in enumerate(self.zones)}
        zone = self.grid.levels[0]
        return tuple(index[self.grid.value(code, zone)] for code in self._codes)

    @cached_property
    def _codes(self) -> tuple[int, ...]:
        return tuple(self.grid.system.parse(name)[0] for name in self.cells)

    @cached_property
    def centers(self) -> tuple[Point, ...]:
        """Return the latitude and longitude of each cell's center, in degrees."""
        system, level = self.grid.system, self.grid.finest
        return tuple(_mean(system.outline(code, level)) for code in self._codes)

    @cached_property
    def side_names(self) -> tuple[str, ...]:
        """Return the K + 2 possible values of one side: the cells, `other` and `no_data`."""
        return (*self.cells, *RESERVED)

    @cached_property
    def side_index(self) -> Mapping[str, int]:
        """Return a mapping from each possible value of one side to its index."""
        return {name: side for side, name in enumerate(self.side_names)}

    @property
    def num_sides(self) -> int:
        """Return K + 2, the number of values that one side can have."""
        return len(self.cells) + 2

    def split(self, index: int) -> tuple[int, int]:
        """Split a pair's index, o * (K + 2) + d, into the origin o and the destination d."""
        return divmod(index, self.num_sides)

    def pair_text(self, origin: int, destination: int) -> str:
        """Return a pair as text, such as `023>other`.

        Args:
            origin: The index of a side, from 0.
            destination: The index of a side, from 0.
        """
        return self.side_names[origin] + PAIR_SEPARATOR + self.side_names[destination]

    @cached_property
    def _band_meters(self) -> list[int]:
        return [_whole(METERS * edge) for edge in self.bands_km if math.isfinite(edge)]

    def meters(self, origin: int, destination: int) -> int:
        """Return the great-circle distance between the centers of two cells (haversine formula).

        Args:
            origin: The index of a cell, from 0.
            destination: The index of a cell, from 0.
        """
        (south, west), (north, east) = self.centers[origin], self.centers[destination]
        angles = map(math.radians, (south, north, north - south, east - west))
        first, second, up, right = angles
        chord = math.sin(up / 2) ** 2
        chord += math.cos(first) * math.cos(second) * math.sin(right / 2) ** 2
        return _whole(2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(chord))))

    def band(self, origin: int, destination: int) -> int:
        """Return the distance band of a pair; an upper edge belongs to the band below it.

        Args:
            origin: The index of a side, from 0.
            destination: The index of a side, from 0.

        Returns:
            0 for equal cells, then the bands in order, then one band beyond the last edge. The last
            index is for pairs in which a side is not a cell.
        """
        num_cells, bands = len(self.cells), len(self.bands_km)
        if max(origin, destination) >= num_cells:
            return bands + 2
        if origin == destination:
            return 0
        return self.band_of(self.meters(origin, destination))

    def band_of(self, meters: int) -> int:
        """Return the distance band (1 or more) for two different cells that are `meters` apart."""
        return 1 + bisect_left(self._band_meters, meters)

    def zone_side(self, side: int) -> int:
        """Return the zone index of a side: 0 to Z - 1, or Z for `other` and Z + 1 for `no_data`."""
        num_cells = len(self.cells)
        return self.zone_of[side] if side < num_cells else len(self.zones) + side - num_cells

    def num_classes(self, question: str) -> int:
        """Return the number of classes into which a question divides the pairs."""
        sides = self.num_sides
        return {
            HOME: 2 * sides,
            WORK: 2 * sides,
            DISTANCE: len(self.bands_km) + 3,
            ZONES: (len(self.zones) + 2) ** 2,
            PAIR: sides**2,
        }[question]

    def class_of(self, question: str, origin: int, destination: int) -> int:
        """Return the class of a pair under a question.

        Args:
            question: The question. The class is 2 o + (o = d) for `home`, 2 d + (o = d) for `work`,
                the band for `distance`, the row-major index of the zone pair for `zones`, and the
                row-major index of the pair for `pair`.
            origin: The index o of a side. Private on a device.
            destination: The index d of a side. Private on a device.

        Returns:
            The class, from 0. Private on a device.
        """
        if question == HOME:
            return 2 * origin + (origin == destination)
        if question == WORK:
            return 2 * destination + (origin == destination)
        if question == DISTANCE:
            return self.band(origin, destination)
        if question == ZONES:
            zones = len(self.zones) + 2
            return zones * self.zone_side(origin) + self.zone_side(destination)
        return origin * self.num_sides + destination

    def symbol(self, params: RapporParams, index: int, cohort: int) -> int:
        """Return the symbol of a pair for the question that a cohort answers.

        Args:
            params: The parameters of the metric.
            index: The index of the pair. Private on a device.
            cohort: The cohort, from 0.

        Returns:
            The symbol, 0 to g - 1. Private on a device.
        """
        question = question_of(cohort)
        return flow_symbol(params, question, self.class_of(question, *self.split(index)), cohort)

    def most_reports_in(self, periods: int) -> int:
        """Return the maximum number of reports in a number of consecutive periods (1 or more).

        In mode `window`, this is one report for each block that the periods can overlap.
        """
        return 1 if self.mode == "once" else (periods - 2) // self.window + 2

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for JSON and `params_id`; `from_dict` reads them."""
        return {
            "grid": self.grid.to_dict(),
            "from": str(self.origin),
            "to": str(self.destination),
            "bands_km": list(self.bands_km),
            "mode": self.mode,
            "spread": self.spread,
            "window": self.window,
            "lag": self.lag,
            "max_gap_minutes": self.max_gap_minutes,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Flow:
        """Read the plain values that `to_dict` returns. Raises ParameterError if invalid."""
        values = dict(fields)
        if values.keys() != _KEYS:
            raise ParameterError(f"a flow has unknown or missing keys: {sorted(values)}")
        values["grid"] = Grid.from_dict(values["grid"])
        values["origin"] = Slot.parse(values.pop("from"))
        values["destination"] = Slot.parse(values.pop("to"))
        values["bands_km"] = as_bands(values["bands_km"])
        return cls(**values)


_KEYS = {*Flow.field_names, "from", "to"} - {"origin", "destination"}


def as_bands(edges: object) -> tuple[float, ...]:
    """Return band edges in kilometers as floats. Raises ParameterError if they are invalid."""
    if not isinstance(edges, list) or any(type(edge) not in (int, float) for edge in edges):
        raise ParameterError(f"bands_km = {shown(edges)} is not a list of kilometers")
    return tuple(map(float, edges))


def class_text(question: str, class_index: int) -> str:
    """Return the ASCII text that is hashed for a class of a question, such as `pair 123`."""
    return f"{question} {class_index}"


def flow_symbol(params: RapporParams, question: str, class_index: int, cohort: int) -> int:
    """Return the symbol, 0 to g - 1, of a question's class in a cohort.

    The symbol of a distance band is its index. Other classes are hashed as in encoding `symbol`.
    """
    if question == DISTANCE:
        return class_index
    data = class_text(question, class_index).encode("ascii")
    return mmh3_positions(data, cohort, params.num_bits, 1)[0]


def flow_symbols(params: RapporParams, flow: Flow, question: str, cohort: int) -> list[int]:
    """Return the symbols of all classes of a question in a cohort.

    Args:
        params: The parameters of the metric.
        flow: The settings with cells, zones and bands.
        question: The question that the cohort answers.
        cohort: The cohort, from 0.

    Returns:
        The symbol of each class, in the order of classes.
    """
    classes = range(flow.num_classes(question))
    return [flow_symbol(params, question, class_, cohort) for class_ in classes]


def _whole(number: float) -> int:
    """Return the nearest whole number; halves round up, as in every client."""
    return math.floor(number + 0.5)


def _mean(corners: tuple[Point, ...]) -> Point:
    """Return the mean of a cell's corners, with longitudes measured from the first corner."""
    first = corners[0][1]
    turned = [(east - first + 180) % 360 - 180 for _, east in corners]
    north = sum(corner[0] for corner in corners) / len(corners)
    return north, first + sum(turned) / len(turned)
