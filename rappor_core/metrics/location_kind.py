"""The kind `location`: a cell of a grid; one slot and level of a declared metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rappor_core.errors import ParameterError
from rappor_core.grid.box import NO_DATA, OTHER, RESERVED, Box
from rappor_core.grid.grid import Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.kinds import Kind, refuse_field
from rappor_core.metrics.location import DEFAULT_GAP_MINUTES, DEFAULT_SLOTS, Location, Slot
from rappor_core.metrics.location_modes import PlaceMode, mode_named
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.tables import (
    NOISE_KEYS,
    SHAPE_KEYS,
    check_hashes,
    needed,
    positive,
    read_common,
    read_mechanism,
    refuse,
    refused,
)
from rappor_core.params import MAX_BITS, RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric


class LocationKind(Kind):
    """A cell of a grid, or a trip from one to another, or a reserved value."""

    name = "location"
    encodings = ("bloom", "one_hot", "symbol")
    located = True
    takes_fixes = True
    takes_no_data = True
    reserved = RESERVED
    in_words = "the area where the device usually is"

    def metrics(self, name: str, table: Mapping[str, Any]) -> Iterable[Metric] | None:
        """Read a whole table into one metric for each slot and level."""
        return location_metrics(name, table)

    def check(self, metric: Metric) -> None:
        """Require one report a slot and period, the reserved fallback, and noise that fits the
        mode."""
        location = metric.location
        if location is None:
            return
        if metric.fallback != OTHER:
            why = f"is not {OTHER!r}, the reserved value that a location sends past its cap"
            refuse_field(metric, "fallback", why)
        if metric.max_reports_per_period != 1:
            why = "is not 1: one report a slot and period"
            refuse_field(metric, "max_reports_per_period", why)
        if location.rules.memoises != metric.params.mechanism.has_permanent_round:
            why = "do not go with its mode: only 'memo' has a permanent response"
            refuse_field(metric, "params", why)
        if metric.num_values not in (None, metric.params.num_bits):
            refuse_field(
                metric, "params", f"need one bit for each of the {metric.num_values} values"
            )

    def check_no_data(self, metric: Metric) -> None:
        """Require the name `no_data`, the only one that this kind has."""
        if metric.no_data != NO_DATA:
            refuse_field(metric, "no_data", f"is not {NO_DATA!r}, its reserved name for a location")

    def num_values(self, metric: Metric) -> int | None:
        """Number of cells and reserved values, where each has a bit of its own; else None."""
        if metric.location is None or not metric.params.scheme.own_bits:
            return None
        return len(metric.location.domain_with(metric.no_data))

    def index(self, metric: Metric, value: object) -> int:
        """The bit of a cell; the bit of `other` for anything that is no cell of the grid."""
        name = self.text(metric, value)
        assert metric.location is not None  # noqa: S101 (`check_definition` has seen to it)
        domain = metric.location.domain_with(metric.no_data)
        return domain.get(name, domain[OTHER])

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """The cells in order, then the reserved values; pairs of cells are not listed."""
        location = Location.from_dict(definition["location"])
        no_data = definition.get("no_data")
        return [] if location.pairs else list(location.domain_with(no_data))


LOCATION = LocationKind()

_PLACE_KEYS = {"grid", "box", "levels", "rows", "columns", "slots", "mode", "window", "pairs"}
_PLACE_KEYS |= {"max_gap_minutes", "encoding", "num_symbols", "epsilon", "turn", "hold"}
# An answer that is due once in many weeks waits for an app that is seldom opened, and its date of
# arrival shows when that was: docs/location.md, "Apps that are seldom opened".
PATIENT_DAYS = 42
_UNCAPPED = 1_000_000  # a mode without permanent responses is bounded by its reports


def location_metrics(name: str, table: Mapping[str, Any]) -> Iterator[Metric]:
    """Make one metric for each slot and level, named `name/slot/level`.

    Raises MetricsFileError that names the metric, the key and the value.
    """
    own = _PLACE_KEYS | {"max_memoized_values"} | SHAPE_KEYS | NOISE_KEYS
    common = read_common(name, table, own, "no_data")
    try:
        mode = mode_named(needed(name, table, "mode"))
        if not mode.memoises and table.get("period") in ("week", "month"):
            common.setdefault("accept_days", PATIENT_DAYS)
        common |= _caps(name, table, mode)
        for location in _locations(name, table):
            params = _params(name, table, location)
            full_name = f"{name}/{location.slot}/{location.level}"
            yield Metric(name=full_name, params=params, location=location, fallback=OTHER, **common)
    except (ParameterError, TypeError) as error:
        raise refused(name, table, error) from error


def _caps(name: str, table: Mapping[str, Any], mode: PlaceMode) -> dict[str, int]:
    """What bounds a device for life: distinct cells, or reports."""
    if mode.memoises:
        if "hold" in table and table["hold"] == 0:
            refuse(name, "hold", table["hold"],
                   "shows in which periods a device had data; give a number of periods for which "
                   "the last known cell is repeated, or take mode = 'window'")  # fmt: skip
        if table.get("encoding") in _BY_SYMBOLS:
            symbols = needed(name, table, "num_symbols")
            return {"max_memoized_values": table.get("max_memoized_values", symbols)}
        return {"max_memoized_values": needed(name, table, "max_memoized_values")}
    if "max_memoized_values" in table:
        why = f"has no use: mode {mode.name!r} memoises nothing; max_reports bounds it"
        refuse(name, "max_memoized_values", table["max_memoized_values"], why)
    if mode.max_reports is None:
        return {"max_memoized_values": _UNCAPPED}
    if table.get("max_reports", mode.max_reports) != mode.max_reports:
        why = f"must be {mode.max_reports} for mode {mode.name!r}"
        refuse(name, "max_reports", table["max_reports"], why)
    return {"max_memoized_values": _UNCAPPED, "max_reports": mode.max_reports}


def _locations(name: str, table: Mapping[str, Any]) -> Iterator[Location]:
    grid = read_grid(name, table)
    slots = tuple(map(Slot.parse, _list(name, table, "slots", DEFAULT_SLOTS)))
    for slot in slots:
        for level in grid.levels:
            yield Location(
                grid=grid,
                level=level,
                slots=slots,
                slot=slot.name,
                mode=table["mode"],
                window=table.get("window", 0),
                pairs=table.get("pairs", False),
                max_gap_minutes=table.get("max_gap_minutes", DEFAULT_GAP_MINUTES),
                turn=table.get("turn", "fixed"),
                hold=table.get("hold", 0),
            )


def read_grid(name: str, table: Mapping[str, Any]) -> Grid:
    """Read grid, box, levels, rows and columns. Raises MetricsFileError, ParameterError."""
    box = _list(name, table, "box")
    if len(box) != 4:
        refuse(name, "box", box, "is not [south, west, north, east] in degrees")
    levels = tuple(_list(name, table, "levels"))
    kind, shape = needed(name, table, "grid"), (table.get("rows", 0), table.get("columns", 0))
    return Grid(kind, Box(*box), levels, *shape)


def _list(name: str, table: Mapping[str, Any], key: str, default: Any = None) -> list[Any]:
    value = list(default) if default and key not in table else needed(name, table, key)
    if not isinstance(value, list) or not value:
        refuse(name, key, value, "is not a list with something in it")
    return value


def _params(name: str, table: Mapping[str, Any], location: Location) -> RapporParams:
    """Bloom filter (one hash unless said), one bit a cell, or a symbol; and its noise."""
    encoding = table.get("encoding", "bloom")
    if encoding not in tuple(_SHAPES):
        refuse(name, "encoding", encoding, f"is not one of {tuple(_SHAPES)}")
    shape = _shape(name, table, location, encoding)
    mechanism = _noise(name, table, location, shape)
    return RapporParams(mechanism=mechanism, encoding=encoding, **shape)


def _shape(
    name: str, table: Mapping[str, Any], location: Location, encoding: str
) -> dict[str, Any]:
    if encoding not in _BY_SYMBOLS and "num_symbols" in table:
        refuse(name, "num_symbols", table["num_symbols"], "goes with encoding = 'symbol'")
    shape = _SHAPES[encoding](name, table, location)
    return shape | ({"hash": table["hash"]} if "hash" in table else {})


def _bloom_shape(name: str, table: Mapping[str, Any], location: Location) -> dict[str, Any]:  # noqa: ARG001
    """All declared, with one hash unless said otherwise."""
    bits, hashes = needed(name, table, "num_bits"), table.get("num_hashes", 1)
    cohorts = needed(name, table, "num_cohorts")
    return {"num_bits": bits, "num_hashes": hashes, "num_cohorts": cohorts}


def _one_hot_shape(name: str, table: Mapping[str, Any], location: Location) -> dict[str, Any]:
    """One bit for each cell and reserved value, in one cohort unless said otherwise."""
    bits = _one_hot(name, location, table.get("no_data"))
    _refuse_fixed(name, table, "one_hot")
    return {"num_bits": bits, "num_hashes": 1, "num_cohorts": table.get("num_cohorts", 1)}


def _symbol_shape(name: str, table: Mapping[str, Any], location: Location) -> dict[str, Any]:  # noqa: ARG001
    """As many bits as symbols; the hash of a cohort says which."""
    _refuse_fixed(name, table, "symbol")
    cohorts = needed(name, table, "num_cohorts")
    return {"num_bits": table.get("num_symbols"), "num_hashes": 1, "num_cohorts": cohorts}


def _refuse_fixed(name: str, table: Mapping[str, Any], encoding: str) -> None:
    for key in ("num_bits", "num_hashes", "hash"):
        if key in table:
            refuse(name, key, table[key], f"is fixed by encoding = {encoding!r}; leave it out")


def _one_hot(name: str, location: Location, no_data: str | None) -> int:
    if location.pairs:
        refuse(name, "pairs", True, "does not go with encoding 'one_hot'; use 'bloom' or 'symbol'")
    cells = len(location.domain_with(no_data))
    if cells > MAX_BITS:
        refuse(name, "encoding", "one_hot",
               f"would need {cells:,} bits at level {location.level}; use 'bloom'")  # fmt: skip
    return cells


def _noise(
    name: str, table: Mapping[str, Any], location: Location, shape: Mapping[str, Any]
) -> TwoRoundMechanism:
    """The rounds of a mode: one fresh one, or two where it memoises."""
    encoding = table.get("encoding", "bloom")
    if not location.rules.memoises:
        for key in sorted(NOISE_KEYS & table.keys()):
            refuse(name, key, table[key], "goes with mode = 'memo'; give epsilon, of one report")
        if encoding in _BY_SYMBOLS:
            refuse(name, "encoding", encoding, "goes with mode = 'memo'")
        check_hashes(name, shape["num_hashes"])
        return TwoRoundMechanism.one_shot(positive(name, table, "epsilon") / shape["num_hashes"])
    if "epsilon" in table:
        refuse(name, "epsilon", table["epsilon"], "is epsilon_infinity and epsilon_one here")
    if encoding not in _BY_SYMBOLS:
        return read_mechanism(name, table, shape["num_hashes"], single_bit=False)
    if table.get("mechanism", "loloha") != "loloha":
        refuse(name, "mechanism", table["mechanism"], "is not 'loloha', the one for symbols")
    epsilons = [positive(name, table, key) for key in ("epsilon_infinity", "epsilon_one")]
    return TwoRoundMechanism.symbols(shape["num_bits"], *epsilons)


_BY_SYMBOLS = {"symbol"}  # encodings whose rounds draw symbols
_SHAPES = {"bloom": _bloom_shape, "one_hot": _one_hot_shape, "symbol": _symbol_shape}
