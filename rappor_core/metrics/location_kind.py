"""The metric kind `location`: a grid cell, for one slot and level of a declared metric."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rappor_core.encodings import Encoding, encoding_named
from rappor_core.grid.box import NO_DATA, OTHER, RESERVED, Box
from rappor_core.grid.grid import Grid
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.keys import (
    ALWAYS,
    EPSILON,
    FLAG,
    HASH,
    MAX_MEMOIZED_VALUES,
    NO_DATA_KEY,
    NOISE_KEYS,
    NUM_BITS,
    NUM_COHORTS,
    NUM_HASHES,
    NUMBERS,
    TEXT,
    TEXTS,
    WHOLE,
    WHOLES,
    Key,
)
from rappor_core.metrics.kinds import Kind, refuse_field
from rappor_core.metrics.location import (
    DEFAULT_GAP_MINUTES,
    DEFAULT_SLOTS,
    Location,
    PlaceMode,
    Slot,
    mode_named,
)
from rappor_core.params import MAX_BITS, RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.metrics.tables import MetricTable

# If an answer is due only once in many weeks, it waits until a rarely used app is opened. Its date
# of arrival would then reveal when that was: docs/location.md, "Apps that are rarely opened".
PATIENT_DAYS = 42
PATIENT_PERIODS = ("week", "month")
EXAMPLE_CELLS = 8
_UNCAPPED = 1_000_000  # in modes without permanent responses, the number of reports is the limit
NOISE_NAMES = sorted(key.name for key in NOISE_KEYS)

GRID_KEYS = (
    Key("grid", TEXT, None, "`quadkey`, `geohash`, `square` or `h3`.", ALWAYS),
    Key("box", NUMBERS, None, "`[south, west, north, east]` in degrees.", ALWAYS),
    Key("levels", WHOLES, None, "Grid levels, coarse to fine.", ALWAYS),
    Key("rows", WHOLE, 0, "Rows of the coarsest level.", "`grid` is `square`"),
    Key("columns", WHOLE, 0, "Columns of the coarsest level.", "`grid` is `square`"),
    Key("window", WHOLE, 0, "Periods per window, 2 to 1,000.", "`mode` is `window`"),
    Key("max_gap_minutes", WHOLE, DEFAULT_GAP_MINUTES, "The longest time that a fix counts."),
)
LOCATION_KEYS = (
    *GRID_KEYS,
    Key("slots", TEXTS, list(DEFAULT_SLOTS), "Parts of the day: name, hours, days."),
    Key("mode", TEXT, None, "`memo`, `window` or `once`.", ALWAYS),
    Key("turn", TEXT, "fixed", "When to answer: drawn once, or per window (`fresh`)."),
    Key("hold", WHOLE, 0, "Periods in which the last known cell replaces a missing fix."),
    Key("pairs", FLAG, False, "Values are trips from origin to destination."),
    EPSILON.replace(needed_when="`mode` is `window` or `once`"),
    Key("encoding", TEXT, "bloom", "`bloom`, `one_hot` (one bit per cell) or `symbol`."),
    Key("num_symbols", WHOLE, None, "Symbols for hashed cells.", "`encoding` is `symbol`"),
    NUM_BITS.replace(needed_when="`encoding` is `bloom`"),
    NUM_HASHES.replace(needed_when="", meaning="Bits that each value sets (default: 1)."),
    NUM_COHORTS.replace(needed_when="`encoding` is `bloom` or `symbol`"),
    HASH,
    *NOISE_KEYS,
    MAX_MEMOIZED_VALUES.replace(needed_when="`mode` is `memo`, except for symbols"),
    NO_DATA_KEY.replace(meaning='`"no_data"`: a slot without a fix has its own answer.'),
)


class LocationKind(Kind):
    """The metric kind whose value is a grid cell, a trip between two cells, or a reserved value."""

    name = "location"
    encodings = ("bloom", "one_hot", "symbol")
    keys = LOCATION_KEYS
    located = True
    takes_fixes = True
    reserved = RESERVED
    in_words = "the area where the device usually is"

    def fields(self, table: MetricTable) -> Iterator[dict[str, Any]]:
        """Yield the fields of one metric for each slot and level, named `name/slot/level`."""
        mode = mode_named(table["mode"])
        declared = {**table.declared(), **_caps(table, mode), "fallback": OTHER}
        if not mode.memoizes and table["period"] in PATIENT_PERIODS:
            declared.setdefault("accept_days", PATIENT_DAYS)
        for location in _locations(table):
            name = f"{table.name}/{location.slot}/{location.level}"
            params = _params(table, location)
            yield {**declared, "name": name, "params": params, "location": location}

    def turns(self, metric: Metric) -> int:
        """Return the number of (period, slot) pairs per answer, times the number of levels."""
        location = metric.location
        assert location is not None  # noqa: S101 (guaranteed by `check_definition`)
        return location.num_turns * len(location.grid.levels)

    def examples(self, metric: Metric) -> Sequence[Hashable]:
        """Return the cells in the middle of the grid, or trips between them."""
        location = metric.location
        assert location is not None  # noqa: S101 (guaranteed by `check_definition`)
        middle = middle_of(list(location.grid.cells(location.level)))
        return [f"{cell}>{middle[0]}" for cell in middle] if location.pairs else middle

    def check(self, metric: Metric) -> None:
        """Require one report per slot and period, a reserved fallback, and the mode's noise."""
        location = metric.location
        if location is None:
            return
        if metric.fallback != OTHER:
            why = f"is not {OTHER!r}, the reserved value that a location sends past its cap"
            refuse_field(metric, "fallback", why)
        if metric.max_reports_per_period != 1:
            why = "is not 1: one report per slot and period"
            refuse_field(metric, "max_reports_per_period", why)
        if metric.no_data not in (None, NO_DATA):
            refuse_field(metric, "no_data", f"is not {NO_DATA!r}, its reserved name for a location")
        if location.rules.memoizes != metric.params.mechanism.has_permanent_round:
            why = "do not go with its mode: only 'memo' has a permanent response"
            refuse_field(metric, "params", why)
        if metric.num_values not in (None, metric.params.num_bits):
            refuse_field(
                metric, "params", f"need one bit for each of the {metric.num_values} values"
            )

    def part_options(self, metric: Metric) -> tuple[str, ...]:
        """Return the library of the metric's grid, if it needs one."""
        location = metric.location
        assert location is not None  # noqa: S101 (guaranteed by `check_definition`)
        return (location.grid.library,) if location.grid.library else ()

    def num_values(self, metric: Metric) -> int | None:
        """Return the number of cells and reserved values if each has its own bit, or else None."""
        if metric.location is None or not metric.params.scheme.own_bits:
            return None
        return len(metric.location.domain_with(metric.no_data))

    def index(self, metric: Metric, value: object) -> int:
        """Return the bit of a cell or reserved value, or the bit of `other` for unknown text."""
        name = self.text(metric, value)
        assert metric.location is not None  # noqa: S101 (guaranteed by `check_definition`)
        domain = metric.location.domain_with(metric.no_data)
        return domain.get(name, domain[OTHER])

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """Return the cells in order, then the reserved values; cell pairs are not listed."""
        location = Location.from_dict(definition["location"])
        no_data = definition.get("no_data")
        return [] if location.pairs else list(location.domain_with(no_data))


def _caps(table: MetricTable, mode: PlaceMode) -> dict[str, int]:
    """Return the lifetime limit per device, as a number of distinct cells or of reports."""
    if mode.memoizes:
        if "hold" in table and table["hold"] == 0:
            table.refuse(
                "hold",
                "shows in which periods a device had data; give a number of periods for which "
                "the last known cell is repeated, or take mode = 'window'",
            )
        cap = table.get("max_memoized_values")
        if cap is None and _encoding(table).symbols:
            cap = table["num_symbols"]
        return {"max_memoized_values": table["max_memoized_values"] if cap is None else cap}
    table.refuse_any(
        ("max_memoized_values",),
        f"has no use: mode {mode.name!r} memoizes nothing; max_reports bounds it",
    )
    if mode.max_reports is None:
        return {"max_memoized_values": _UNCAPPED}
    if table.get("max_reports") not in (None, mode.max_reports):
        table.refuse("max_reports", f"must be {mode.max_reports} for mode {mode.name!r}")
    return {"max_memoized_values": _UNCAPPED, "max_reports": mode.max_reports}


def _locations(table: MetricTable) -> Iterator[Location]:
    grid = read_grid(table)
    slots = tuple(map(Slot.parse, table.filled_list("slots")))
    keys = ("mode", "window", "pairs", "max_gap_minutes", "turn", "hold")
    settings = {key: table[key] for key in keys}
    for slot in slots:
        for level in grid.levels:
            yield Location(grid=grid, level=level, slots=slots, slot=slot.name, **settings)


def read_grid(table: MetricTable) -> Grid:
    """Read the grid settings. Raises MetricsFileError or ParameterError if invalid."""
    box, levels = table.filled_list("box"), tuple(table.filled_list("levels"))
    if len(box) != 4:
        table.refuse("box", "is not [south, west, north, east] in degrees")
    return Grid(table["grid"], Box(*box), levels, table["rows"], table["columns"])


def _encoding(table: MetricTable) -> Encoding:
    if table["encoding"] not in LOCATION.encodings:
        table.refuse("encoding", f"is not one of {LOCATION.encodings}")
    return encoding_named(table["encoding"])


def _params(table: MetricTable, location: Location) -> RapporParams:
    encoding = _encoding(table)
    if not encoding.symbols:
        table.refuse_any(("num_symbols",), "goes with encoding = 'symbol'")
    elif not location.rules.memoizes:
        table.refuse("encoding", "goes with mode = 'memo'")
    shape = _shape(table, location, encoding) | {"hash": table["hash"]}
    mechanism = _noise(table, location, encoding, shape)
    return RapporParams(mechanism=mechanism, encoding=encoding.name, **shape)


def _shape(table: MetricTable, location: Location, encoding: Encoding) -> dict[str, Any]:
    """Return the number of bits, hashes and cohorts.

    A Bloom filter has the declared numbers, with one hash by default. Each symbol has one bit. A
    one-hot encoding has one bit for each cell and reserved value, and one cohort by default.
    """
    if not encoding.own_bits and not encoding.symbols:
        hashes = table.get("num_hashes")
        hashes = 1 if hashes is None else hashes
        bits, cohorts = table["num_bits"], table["num_cohorts"]
        return {"num_bits": bits, "num_hashes": hashes, "num_cohorts": cohorts}
    if encoding.symbols:
        bits, cohorts = table["num_symbols"], table["num_cohorts"]
    else:
        if location.pairs:
            table.refuse("pairs", "does not go with encoding 'one_hot'; use 'bloom' or 'symbol'")
        bits, cohorts = len(location.domain_with(table.get("no_data"))), table.get("num_cohorts")
        if bits > MAX_BITS:
            why = f"would need {bits:,} bits at level {location.level}; use 'bloom'"
            table.refuse("encoding", why)
    fixed = "num_bits", "num_hashes", "hash"
    table.refuse_any(fixed, f"is fixed by encoding = {encoding.name!r}; leave it out")
    return {"num_bits": bits, "num_hashes": 1, "num_cohorts": 1 if cohorts is None else cohorts}


def _noise(
    table: MetricTable, location: Location, encoding: Encoding, shape: Mapping[str, Any]
) -> TwoRoundMechanism:
    """Return the mechanism: two rounds if the mode memoizes, otherwise one fresh round."""
    hashes = shape["num_hashes"]
    if not location.rules.memoizes:
        table.refuse_any(NOISE_NAMES, "goes with mode = 'memo'; give epsilon, of one report")
        table.check_hashes(hashes)
        return TwoRoundMechanism.one_shot(table.positive("epsilon") / hashes)
    table.refuse_any(("epsilon",), "is epsilon_infinity and epsilon_one here")
    if not encoding.symbols:
        return table.mechanism(hashes, single_bit=False)
    if table.given.get("mechanism", "loloha") != "loloha":
        table.refuse("mechanism", "is not 'loloha', the one for symbols")
    epsilons = table.positive("epsilon_infinity"), table.positive("epsilon_one")
    return TwoRoundMechanism.symbols(shape["num_bits"], *epsilons)


LOCATION = LocationKind()


def middle_of(cells: Sequence[str]) -> Sequence[str]:
    """Return cells for a simulated fleet, starting in the middle of the grid."""
    middle = len(cells) // 2
    return [*cells[middle:], *cells][:EXAMPLE_CELLS]
