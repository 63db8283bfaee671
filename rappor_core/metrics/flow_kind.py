"""The metric kind `flow`: one question about a device's pair of usual cells."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rappor_core.errors import ParameterError, ValueRefusedError, check_whole
from rappor_core.grid.box import NO_DATA, OTHER, RESERVED
from rappor_core.grid.grid import PAIR_SEPARATOR
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.flow import (
    COHORT_STEP,
    MAX_SYMBOLS,
    Flow,
    as_bands,
)
from rappor_core.metrics.keys import ALWAYS, EPSILON, NUM_COHORTS, NUMBERS, TEXT, WHOLE, Key
from rappor_core.metrics.kinds import Kind, refuse_field
from rappor_core.metrics.location import Slot
from rappor_core.metrics.location_kind import (
    GRID_KEYS,
    PATIENT_DAYS,
    PATIENT_PERIODS,
    middle_of,
    read_grid,
)
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.metrics.tables import MetricTable

FLOW_KEYS = (
    *GRID_KEYS,
    Key("from", TEXT, None, "Slot of the first usual cell.", ALWAYS),
    Key("to", TEXT, None, "Slot of the second usual cell; with `lag`, the same slot.", ALWAYS),
    Key("lag", WHOLE, 0, "Periods between the two cells, 1 to 60, to measure moves."),
    Key("bands_km", NUMBERS, None, "Rising upper edges of the distance bands.", ALWAYS),
    Key("mode", TEXT, None, "`once` (one answer ever) or `window` (one in each).", ALWAYS),
    Key("spread", WHOLE, 1, "In mode `once`: periods over which devices spread their answer."),
    EPSILON,
    Key("num_symbols", WHOLE, None, "2 to 64; round(e^epsilon + 1) detects flows best.", ALWAYS),
    NUM_COHORTS.replace(meaning="Groups with different questions; a multiple of 10."),
    Key("no_data", TEXT, NO_DATA, "Fixed; you can leave it out."),
)


class FlowKind(Kind):
    """The metric kind whose value is a pair of usual cells, as text `origin>destination`.

    `other` and `no_data` can replace one side. Without `>`, they represent both sides.
    """

    name = "flow"
    encodings = ("flow_symbol",)
    keys = FLOW_KEYS
    details = Flow
    client_part = "flows"
    reserved = RESERVED
    takes_fixes = True

    def fields(self, table: MetricTable) -> Iterator[dict[str, Any]]:
        """Yield the fields of the table's only metric, with the flow as its details."""
        declared = table.declared()
        if table["period"] in PATIENT_PERIODS:
            declared.setdefault("accept_days", PATIENT_DAYS)
        if table["mode"] == "once":
            if table.get("max_reports") not in (None, 1):
                table.refuse("max_reports", "must be 1 for mode 'once'")
            declared["max_reports"] = 1
        if table["no_data"] != NO_DATA:
            table.refuse("no_data", f"is not {NO_DATA!r}, its name for a flow")
        fixed = {"max_memoized_values": 1, "fallback": OTHER, "no_data": NO_DATA}
        yield {**declared, **fixed, "params": _params(table), "details": _flow(table)}

    def turns(self, metric: Metric) -> int:
        """Return the number of periods over which devices spread their answers."""
        return int(metric.details.window or metric.details.spread)

    def part_options(self, metric: Metric) -> tuple[str, ...]:
        """Return the library of the metric's grid, if it needs one."""
        library: str = metric.details.grid.library
        return (library,) if library else ()

    def cohort_step(self, metric: Metric) -> int:  # noqa: ARG002
        """Return the number that must divide `num_cohorts`, so that every question is asked."""
        return COHORT_STEP

    def check(self, metric: Metric) -> None:
        """Require one-round noise, one report per period, and enough symbols and cohorts."""
        flow = metric.details
        if metric.max_reports_per_period != 1:
            refuse_field(metric, "max_reports_per_period", "is not 1: one answer a period")
        if flow.mode == "once" and metric.max_reports != 1:
            refuse_field(metric, "max_reports", "is not 1, as mode 'once' requires")
        if metric.fallback != OTHER or metric.no_data != NO_DATA:
            refuse_field(metric, "fallback", f"and no_data are not {OTHER!r} and {NO_DATA!r}")
        if metric.max_memoized_values != 1:
            refuse_field(metric, "max_memoized_values", "is not 1: a flow memoizes nothing")
        self._check_params(metric, flow)

    def _check_params(self, metric: Metric, flow: Flow) -> None:
        params, bands = metric.params, flow.num_classes("distance")
        if params.mechanism.has_permanent_round:
            refuse_field(metric, "params", "have a permanent round; a flow is randomized once")
        if params.num_bits > MAX_SYMBOLS:
            refuse_field(metric, "params", f"have more than {MAX_SYMBOLS} symbols")
        if bands > params.num_bits:
            why = (
                f"have {params.num_bits} symbols for {bands} distance bands (bands_km = "
                f"{list(flow.bands_km)}, own cell, beyond, other); use fewer bands or more symbols"
            )
            refuse_field(metric, "params", why)
        if params.num_cohorts % COHORT_STEP:
            why = f"have num_cohorts = {params.num_cohorts}, not a multiple of {COHORT_STEP}"
            refuse_field(metric, "params", why)

    def num_values(self, metric: Metric) -> int | None:
        """Return the number of pairs, counting `other` and `no_data` on both sides."""
        return int(metric.details.num_sides) ** 2

    def index(self, metric: Metric, value: object) -> int:
        """Return the index of a pair, o * (K + 2) + d. Raises ValueRefusedError if invalid."""
        first, separator, second = self.text(metric, value).partition(PAIR_SEPARATOR)
        flow = metric.details
        sides = flow.side_index
        pair = (first, second if separator else first)
        if (not separator and first not in RESERVED) or any(name not in sides for name in pair):
            raise ValueRefusedError(
                f"metric {metric.name!r}: the text is not two cells as 'origin>destination', "
                "'other' or 'no_data'"
            )
        return int(sides[pair[0]] * flow.num_sides + sides[pair[1]])

    def all_values(self, metric: Metric) -> Sequence[object]:  # noqa: ARG002
        """Return no values: apps do not record values of this kind, and there are up to 40,804."""
        return ()

    def examples(self, metric: Metric) -> Sequence[Hashable]:
        """Return trips from cells in the middle of the grid to a single cell there."""
        middle = middle_of(metric.details.cells)
        return [f"{cell}{PAIR_SEPARATOR}{middle[0]}" for cell in middle]

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """Return all pairs as text, in the order of their indices."""
        flow = Flow.from_dict(definition["details"])
        sides = range(flow.num_sides)
        return [flow.pair_text(origin, destination) for origin in sides for destination in sides]

    def described(self, metric: Metric) -> tuple[str, tuple[str, ...]]:
        """Return the question as text, and which part of it a device answers."""
        flow = metric.details
        pair = f"the area where the device usually is in the hours {flow.origin}"
        if flow.lag:
            pair += f", and {flow.lag} {metric.period}s later in the same hours"
        else:
            pair += f", and in the hours {flow.destination}"
        answer = "which area one of them is, how far apart they are, or which two they are"
        return f"{pair}. A device says one of these, by chance: {answer}", ()


def _flow(table: MetricTable) -> Flow:
    keys = ("mode", "spread", "window", "lag", "max_gap_minutes")
    return Flow(
        grid=read_grid(table),
        origin=_slot(table, "from"),
        destination=_slot(table, "to"),
        bands_km=as_bands(table["bands_km"]),
        **{key: table[key] for key in keys},
    )


def _slot(table: MetricTable, key: str) -> Slot:
    try:
        return Slot.parse(table[key])
    except ParameterError as error:
        raise ParameterError(f"{key}: {error}") from error


def _params(table: MetricTable) -> RapporParams:
    symbols, cohorts = table["num_symbols"], table["num_cohorts"]
    check_whole("num_symbols", symbols, 2, MAX_SYMBOLS)
    if type(cohorts) is not int or cohorts % COHORT_STEP:
        why = f"is not a multiple of {COHORT_STEP}, of which each set asks all questions"
        table.refuse("num_cohorts", why)
    mechanism = TwoRoundMechanism.one_symbol(symbols, table.positive("epsilon"))
    return RapporParams(symbols, 1, cohorts, mechanism, "flow_symbol")


FLOW = FlowKind()
