"""The kind `location`: a cell of a grid; one slot and level of a declared metric."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
from rappor_core.metrics.location import DEFAULT_GAP_MINUTES, DEFAULT_SLOTS, Location, Slot
from rappor_core.metrics.location_modes import PlaceMode, mode_named
from rappor_core.params import MAX_BITS, RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.metrics.tables import MetricTable

# An answer that is due once in many weeks waits for an app that is seldom opened, and its date of
# arrival shows when that was: docs/location.md, "Apps that are seldom opened".
PATIENT_DAYS = 42
PATIENT_PERIODS = ("week", "month")
EXAMPLE_CELLS = 8
_UNCAPPED = 1_000_000  # a mode without permanent responses is bounded by its reports
NOISE_NAMES = sorted(key.name for key in NOISE_KEYS)

GRID_KEYS = (
    Key("grid", TEXT, None, "`quadkey`, `geohash`, `square` or `h3`.", ALWAYS),
    Key(
        "box",
        NUMBERS,
        None,
        "`[south, west, north, east]`, degrees; a place outside is `other`, and so is a slot "
        "without a fix unless `no_data` is declared.",
        ALWAYS,
    ),
    Key(
        "levels",
        WHOLES,
        None,
        "Of the grid, coarse to fine; each device of a `location` answers at one of them, a `flow` "
        "has two, of zones and of cells.",
        ALWAYS,
    ),
    Key("rows", WHOLE, 0, "Of the coarsest level.", 'grid = "square"'),
    Key("columns", WHOLE, 0, "Of the coarsest level.", 'grid = "square"'),
)
MAX_GAP = Key(
    "max_gap_minutes",
    WHOLE,
    DEFAULT_GAP_MINUTES,
    "The longest time that one fix counts for, 1 to 1,440.",
)
WINDOW = Key("window", WHOLE, 0, "Periods of a window, 2 to 1,000.", "mode `window`")
LOCATION_KEYS = (
    *GRID_KEYS,
    Key(
        "slots",
        TEXTS,
        list(DEFAULT_SLOTS),
        "Parts of a day: a name, hours, and `weekdays` or `weekends`.",
    ),
    Key(
        "mode",
        TEXT,
        None,
        "`memo` (a permanent response, a report each period), `window` (a fresh report in each "
        "window) or `once` (one for life).",
        ALWAYS,
    ),
    WINDOW,
    Key(
        "turn",
        TEXT,
        "fixed",
        "Of mode `window`: `fresh` draws anew in each block of `window` periods when a device "
        "answers, `fixed` once for life.",
    ),
    Key(
        "hold",
        WHOLE,
        0,
        "For so many periods, 60 at most and fewer than `window`, [the last known "
        "cell](location.md#last-known-cells) answers without a fix; of mode `memo` 1 or more.",
    ),
    Key("pairs", FLAG, False, "Values are trips, origin and destination."),
    MAX_GAP,
    EPSILON.replace(needed_when="mode `window` or `once`"),
    Key(
        "encoding",
        TEXT,
        "bloom",
        "`bloom`, `one_hot` (a bit for each cell) or `symbol` (one of a few).",
    ),
    Key(
        "num_symbols",
        WHOLE,
        None,
        "How many symbols cells are hashed to.",
        'encoding = "symbol"',
    ),
    NUM_BITS.replace(needed_when='encoding = "bloom"'),
    NUM_HASHES.replace(
        meaning="Bits that a value sets; 1 where it is not given. The epsilons grow with it.",
        needed_when="",
    ),
    NUM_COHORTS.replace(needed_when='encoding = "bloom" or "symbol"'),
    HASH,
    *NOISE_KEYS,
    MAX_MEMOIZED_VALUES.replace(needed_when="mode `memo`, but for symbols"),
    NO_DATA_KEY.replace(
        meaning='`"no_data"`: a slot and period without a fix has an answer of its own, apart '
        "from `other` ([reserved values](location.md#reserved-values))."
    ),
)


class LocationKind(Kind):
    """A cell of a grid, or a trip from one to another, or a reserved value."""

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
        if not mode.memoises and table["period"] in PATIENT_PERIODS:
            declared.setdefault("accept_days", PATIENT_DAYS)
        for location in _locations(table):
            name = f"{table.name}/{location.slot}/{location.level}"
            params = _params(table, location)
            yield {**declared, "name": name, "params": params, "location": location}

    def turns(self, metric: Metric) -> int:
        """Pairs of period and slot of which a device answers one, times the levels."""
        location = metric.location
        assert location is not None  # noqa: S101 (`check_definition` has seen to it)
        return location.num_turns * len(location.grid.levels)

    def examples(self, metric: Metric) -> Sequence[Hashable]:
        """Cells in the middle of its grid; of pairs, trips between them."""
        location = metric.location
        assert location is not None  # noqa: S101 (`check_definition` has seen to it)
        cells = list(location.grid.cells(location.level))
        middle = (cells[len(cells) // 2 :] + cells)[:EXAMPLE_CELLS]
        return [f"{cell}>{middle[0]}" for cell in middle] if location.pairs else middle

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

    def part_options(self, metric: Metric) -> tuple[str, ...]:
        """The library of its grid, if there is one."""
        location = metric.location
        assert location is not None  # noqa: S101 (`check_definition` has seen to it)
        return (location.grid.library,) if location.grid.library else ()

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


def _caps(table: MetricTable, mode: PlaceMode) -> dict[str, int]:
    """What bounds a device for life: distinct cells, or reports."""
    if mode.memoises:
        if "hold" in table and table["hold"] == 0:
            table.refuse(
                "hold",
                "shows in which periods a device had data; give a number of periods for which "
                "the last known cell is repeated, or take mode = 'window'",
            )
        cap = table.get("max_memoized_values")
        if cap is None and table["encoding"] in _BY_SYMBOLS:
            cap = table["num_symbols"]
        return {"max_memoized_values": table["max_memoized_values"] if cap is None else cap}
    table.refuse_any(
        ("max_memoized_values",),
        f"has no use: mode {mode.name!r} memoises nothing; max_reports bounds it",
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
    """Read grid, box, levels, rows and columns. Raises MetricsFileError, ParameterError."""
    box, levels = table.filled_list("box"), tuple(table.filled_list("levels"))
    if len(box) != 4:
        table.refuse("box", "is not [south, west, north, east] in degrees")
    return Grid(table["grid"], Box(*box), levels, table["rows"], table["columns"])


def _params(table: MetricTable, location: Location) -> RapporParams:
    """Bloom filter (one hash unless said), one bit a cell, or a symbol; and its noise."""
    encoding = table["encoding"]
    if encoding not in tuple(_SHAPES):
        table.refuse("encoding", f"is not one of {tuple(_SHAPES)}")
    if encoding not in _BY_SYMBOLS:
        table.refuse_any(("num_symbols",), "goes with encoding = 'symbol'")
    elif not location.rules.memoises:
        table.refuse("encoding", "goes with mode = 'memo'")
    shape = _SHAPES[encoding](table, location)
    shape["hash"] = table["hash"]
    mechanism = _noise(table, location, shape)
    return RapporParams(mechanism=mechanism, encoding=encoding, **shape)


def _bloom_shape(table: MetricTable, location: Location) -> dict[str, Any]:  # noqa: ARG001
    """All declared, with one hash unless said otherwise."""
    hashes = table.get("num_hashes")
    return {
        "num_bits": table["num_bits"],
        "num_hashes": 1 if hashes is None else hashes,
        "num_cohorts": table["num_cohorts"],
    }


def _one_hot_shape(table: MetricTable, location: Location) -> dict[str, Any]:
    """One bit for each cell and reserved value, in one cohort unless said otherwise."""
    if location.pairs:
        table.refuse("pairs", "does not go with encoding 'one_hot'; use 'bloom' or 'symbol'")
    cells, cohorts = len(location.domain_with(table.get("no_data"))), table.get("num_cohorts")
    if cells > MAX_BITS:
        table.refuse(
            "encoding", f"would need {cells:,} bits at level {location.level}; use 'bloom'"
        )
    _refuse_fixed(table, "one_hot")
    return {"num_bits": cells, "num_hashes": 1, "num_cohorts": 1 if cohorts is None else cohorts}


def _symbol_shape(table: MetricTable, location: Location) -> dict[str, Any]:  # noqa: ARG001
    """As many bits as symbols; the hash of a cohort says which."""
    _refuse_fixed(table, "symbol")
    symbols, cohorts = table["num_symbols"], table["num_cohorts"]
    return {"num_bits": symbols, "num_hashes": 1, "num_cohorts": cohorts}


def _refuse_fixed(table: MetricTable, encoding: str) -> None:
    fixed = "num_bits", "num_hashes", "hash"
    table.refuse_any(fixed, f"is fixed by encoding = {encoding!r}; leave it out")


def _noise(table: MetricTable, location: Location, shape: Mapping[str, Any]) -> TwoRoundMechanism:
    """The rounds of a mode: one fresh one, or two where it memoises."""
    encoding, hashes = table["encoding"], shape["num_hashes"]
    if not location.rules.memoises:
        table.refuse_any(NOISE_NAMES, "goes with mode = 'memo'; give epsilon, of one report")
        table.check_hashes(hashes)
        return TwoRoundMechanism.one_shot(table.positive("epsilon") / hashes)
    table.refuse_any(("epsilon",), "is epsilon_infinity and epsilon_one here")
    if encoding not in _BY_SYMBOLS:
        return table.mechanism(hashes, single_bit=False)
    if table.given.get("mechanism", "loloha") != "loloha":
        table.refuse("mechanism", "is not 'loloha', the one for symbols")
    epsilons = table.positive("epsilon_infinity"), table.positive("epsilon_one")
    return TwoRoundMechanism.symbols(shape["num_bits"], *epsilons)


_BY_SYMBOLS = {"symbol"}  # encodings whose rounds draw symbols
_SHAPES = {"bloom": _bloom_shape, "one_hot": _one_hot_shape, "symbol": _symbol_shape}

LOCATION = LocationKind()
