"""The kind `location`: a cell of a grid; one slot and level of a declared metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rappor_core.metrics.kinds import Kind, refuse_field
from rappor_core.metrics.location import Location
from rappor_core.reserved import NO_DATA, OTHER, RESERVED

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
        from rappor_core.metrics.file_location import location_metrics  # only for a file

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
