"""Reading a `[metrics.NAME]` table of kind `flow`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file_location import PATIENT_DAYS, read_grid
from rappor_core.metrics.flow import COHORT_STEP, MAX_SYMBOLS, Flow, as_bands
from rappor_core.metrics.location import DEFAULT_GAP_MINUTES, Slot
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.tables import needed, positive, refuse, refuse_unknown, refused
from rappor_core.params import RapporParams
from rappor_core.reserved import NO_DATA, OTHER

_FLOW_KEYS = {"grid", "box", "levels", "rows", "columns", "from", "to", "bands_km", "mode"}
_FLOW_KEYS |= {"spread", "window", "lag", "max_gap_minutes", "epsilon", "num_symbols"}
_FLOW_KEYS |= {"num_cohorts", "no_data"}
_OPTIONAL_KEYS = {"period", "min_reports", "min_reports_per_cohort", "accept_days", "keep_raw_days"}
_OPTIONAL_KEYS |= {"platforms", "lives", "max_reports"}
_REQUIRED_KEYS = {"kind", "description", "owner", "expires"}
_KEYS = _FLOW_KEYS | _OPTIONAL_KEYS | _REQUIRED_KEYS


def flow_metric(name: str, table: Mapping[str, Any]) -> Metric:
    """Make a metric of kind `flow` from its `[metrics.NAME]` table. Raises MetricsFileError that
    names the metric, the key and the value."""
    refuse_unknown(f"metric {name!r}", table, _KEYS)
    common = {key: needed(name, table, key) for key in sorted(_REQUIRED_KEYS)}
    common |= {key: table[key] for key in _OPTIONAL_KEYS & table.keys()}
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
