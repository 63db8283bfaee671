"""The kind `flow`: a pair of usual cells, of which a device answers one question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.grid.box import NO_DATA, OTHER, RESERVED
from rappor_core.grid.grid import PAIR_SEPARATOR
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.flow import (
    COHORT_STEP,
    MAX_SYMBOLS,
    Flow,
    as_bands,
)
from rappor_core.metrics.kinds import Kind, refuse_field
from rappor_core.metrics.location import DEFAULT_GAP_MINUTES, Slot
from rappor_core.metrics.location_kind import PATIENT_DAYS, read_grid
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.tables import (
    needed,
    positive,
    read_common,
    refuse,
    refused,
)
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric


class FlowKind(Kind):
    """The kind of metric whose value is a pair of usual cells, as text `origin>destination`.

    `other` and `no_data` stand for a side, or alone for both.
    """

    name = "flow"
    encodings = ("flow_symbol",)
    has_details = True
    takes_no_data = True
    reserved = RESERVED
    takes_fixes = True

    def metrics(self, name: str, table: Mapping[str, Any]) -> Iterable[Metric] | None:
        """Read a whole `[metrics.NAME]` table."""
        return (flow_metric(name, table),)

    def details_from_dict(self, fields: Mapping[str, Any]) -> Flow:
        """Read the `Flow` of a metric's definition."""
        return Flow.from_dict(fields)

    def cohort_step(self, metric: Metric) -> int:  # noqa: ARG002
        """Number that `num_cohorts` must be a multiple of: so many ask all questions."""
        return COHORT_STEP

    def check(self, metric: Metric) -> None:
        """Require fresh reports, one a period, a symbol for each band, and cohorts that ask all
        questions."""
        flow = metric.details
        if not isinstance(flow, Flow):
            refuse_field(metric, "details", "are not those of a flow")
        if metric.max_reports_per_period != 1:
            refuse_field(metric, "max_reports_per_period", "is not 1: one answer a period")
        if flow.mode == "once" and metric.max_reports != 1:
            refuse_field(metric, "max_reports", "is not 1, as mode 'once' asks")
        if metric.fallback != OTHER or metric.no_data != NO_DATA:
            refuse_field(metric, "fallback", f"and no_data are not {OTHER!r} and {NO_DATA!r}")
        if metric.max_memoized_values != 1:
            refuse_field(metric, "max_memoized_values", "is not 1: a flow memoises nothing")
        self._check_params(metric, flow)

    def _check_params(self, metric: Metric, flow: Flow) -> None:
        params, bands = metric.params, flow.num_classes("distance")
        if params.mechanism.has_permanent_round:
            refuse_field(metric, "params", "have a permanent round; a flow is randomised once")
        if params.num_bits > MAX_SYMBOLS:
            refuse_field(metric, "params", f"have more than {MAX_SYMBOLS} symbols")
        if bands > params.num_bits:
            why = (
                f"have {params.num_bits} symbols for {bands} distance bands (bands_km = "
                f"{list(flow.bands_km)}, own cell, beyond, other); use fewer bands or more symbols"
            )
            refuse_field(metric, "params", why)
        if params.num_cohorts % COHORT_STEP:
            why = f"have num_cohorts = {params.num_cohorts}, which is no multiple of {COHORT_STEP}"
            refuse_field(metric, "params", why)

    def check_fallback(self, metric: Metric) -> None:
        """Nothing more: `check` has seen to it."""

    def num_values(self, metric: Metric) -> int | None:
        """Number of pairs, `other` and `no_data` among both sides."""
        return int(metric.details.num_sides) ** 2

    def index(self, metric: Metric, value: object) -> int:
        """The index of a pair, o * (K + 2) + d. Raises ValueRefusedError for text that is none."""
        first, found, second = self.text(metric, value).partition(PAIR_SEPARATOR)
        flow = metric.details
        sides = flow.side_index
        pair = (first, second if found else first)
        if (not found and first not in RESERVED) or any(name not in sides for name in pair):
            raise ValueRefusedError(
                f"metric {metric.name!r} takes two cells as text 'origin>destination', 'other' or "
                "'no_data'; the text is none of them"
            )
        return int(sides[pair[0]] * flow.num_sides + sides[pair[1]])

    def all_values(self, metric: Metric) -> Sequence[object]:  # noqa: ARG002
        """None: no app gives a value, and there are up to 40,804."""
        return ()

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """All pairs as text, by index."""
        flow = Flow.from_dict(definition["details"])
        sides = range(flow.num_sides)
        return [flow.pair_text(origin, destination) for origin in sides for destination in sides]

    def described(self, metric: Metric) -> tuple[str, tuple[str, ...]]:
        """What is made of a period, and how little of it a device says."""
        flow = metric.details
        pair = f"the area where the device usually is in the hours {flow.origin}"
        if flow.lag:
            pair += f", and {flow.lag} {metric.period}s later in the same hours"
        else:
            pair += f", and in the hours {flow.destination}"
        said = "which area one of them is, how far apart they are, or which two they are"
        return f"{pair}. A device says one of these, by chance: {said}", ()


FLOW = FlowKind()

_FLOW_KEYS = {"grid", "box", "levels", "rows", "columns", "from", "to", "bands_km", "mode"}
_FLOW_KEYS |= {"spread", "window", "lag", "max_gap_minutes", "epsilon", "num_symbols"}
_FLOW_KEYS |= {"num_cohorts", "no_data"}


def flow_metric(name: str, table: Mapping[str, Any]) -> Metric:
    """Make a metric of kind `flow` from its `[metrics.NAME]` table. Raises MetricsFileError that
    names the metric, the key and the value."""
    common = read_common(name, table, _FLOW_KEYS)
    if table.get("period") in ("week", "month"):
        common.setdefault("accept_days", PATIENT_DAYS)
    if table.get("mode") == "once":
        if table.get("max_reports", 1) != 1:
            refuse(name, "max_reports", table["max_reports"], "must be 1 for mode 'once'")
        common["max_reports"] = 1
    if table.get("no_data", NO_DATA) != NO_DATA:
        refuse(name, "no_data", table["no_data"], f"is not {NO_DATA!r}, its name for a flow")
    try:
        return Metric(name=name, params=_params(name, table), details=_flow(name, table),
                      max_memoized_values=1, fallback=OTHER, no_data=NO_DATA,
                      **common)  # fmt: skip
    except (ParameterError, TypeError) as error:
        raise refused(name, table, error) from error


def _flow(name: str, table: Mapping[str, Any]) -> Flow:
    return Flow(
        grid=read_grid(name, table),
        origin=_slot(name, table, "from"),
        destination=_slot(name, table, "to"),
        bands_km=as_bands(needed(name, table, "bands_km")),
        mode=needed(name, table, "mode"),
        spread=table.get("spread", 1),
        window=table.get("window", 0),
        lag=table.get("lag", 0),
        max_gap_minutes=table.get("max_gap_minutes", DEFAULT_GAP_MINUTES),
    )


def _slot(name: str, table: Mapping[str, Any], key: str) -> Slot:
    try:
        return Slot.parse(needed(name, table, key))
    except ParameterError as error:
        raise ParameterError(f"{key}: {error}") from error


def _params(name: str, table: Mapping[str, Any]) -> RapporParams:
    """So many symbols and cohorts, and k-ary randomised response with the whole epsilon."""
    symbols = needed(name, table, "num_symbols")
    if type(symbols) is not int or not 2 <= symbols <= MAX_SYMBOLS:
        refuse(name, "num_symbols", symbols, f"is not a whole number from 2 to {MAX_SYMBOLS}")
    cohorts = needed(name, table, "num_cohorts")
    if type(cohorts) is not int or cohorts % COHORT_STEP:
        why = f"is not a multiple of {COHORT_STEP}, of which each set asks all questions"
        refuse(name, "num_cohorts", cohorts, why)
    mechanism = TwoRoundMechanism.one_symbol(symbols, positive(name, table, "epsilon"))
    return RapporParams(symbols, 1, cohorts, mechanism, "flow_symbol")
