"""OpenTelemetry's instruments, recorded through declared metrics: `rappor-telemetry[otel]`.

    from opentelemetry import metrics
    metrics.set_meter_provider(DeclaredMeterProvider(client, load_metrics("metrics.toml")))

A counter adds to the metric of kind `number` of its name with `of_period = "sum"`, a histogram
records in one with another `of_period`. Each leaves as that metric says: one randomised
answer a period. What is not declared is dropped, and so are all attributes; a warning says so once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from opentelemetry.metrics import (
    Counter,
    Histogram,
    Meter,
    MeterProvider,
    NoOpCounter,
    NoOpHistogram,
    NoOpMeter,
    NoOpUpDownCounter,
    UpDownCounter,
)

from client_sdk.client import Client
from rappor_core.metrics.metrics_file import MetricsFile

_LOG = logging.getLogger("client_sdk")


class DeclaredMeterProvider(MeterProvider):
    """Makes the meters of all libraries of a process.

    client: an open one.  metrics: the file that it was opened with. Names are compared in lower
    case, as OpenTelemetry does.
    """

    def __init__(self, client: Client, metrics: MetricsFile) -> None:
        """Nothing is recorded until an instrument is used."""
        self._client = client
        numbers = [one for one in metrics.declared if one.rules.collected and one.location is None]
        self._sums = {one.name for one in numbers if one.details.of_period == "sum"}
        self._others = {one.name for one in numbers} - self._sums
        self._told: set[str] = set()

    def get_meter(
        self,
        name: str,
        version: str | None = None,
        schema_url: str | None = None,
        attributes: Any = None,  # noqa: ARG002 - dropped
    ) -> Meter:
        """A meter whose instruments are looked up by their own names."""
        return _DeclaredMeter(self, name, version, schema_url)

    def adding(self, name: str, instrument: str) -> Callable[[float], object] | None:
        """What adds an amount to a counter; None where none is declared."""
        if name.lower() in self._sums:
            return lambda amount: self._client.add(name.lower(), amount)
        self._drop(name, instrument, 'kind = "number" and of_period = "sum"')
        return None

    def recording(self, name: str, instrument: str) -> Callable[[float], object] | None:
        """What records a number; None where none is declared."""
        if name.lower() in self._others:
            return lambda value: self._client.record(name.lower(), value)
        self._drop(name, instrument, 'kind = "number", and an of_period but "sum"')
        return None

    def _drop(self, name: str, instrument: str, needed: str) -> None:
        if name not in self._told:
            self._told.add(name)
            _LOG.warning(
                "%s %r is dropped: no metric of this name is declared with %s",
                instrument, name, needed,
            )  # fmt: skip


class _DeclaredMeter(NoOpMeter):
    """Instruments of one library: those of declared metrics record, all others do nothing."""

    def __init__(self, provider: DeclaredMeterProvider, *described: Any) -> None:
        super().__init__(*described)
        self._provider = provider

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        act = self._provider.adding(name, "counter")
        return _Adding(act, name, unit, description) if act else NoOpCounter(name)

    def create_up_down_counter(
        self, name: str, unit: str = "", description: str = ""
    ) -> UpDownCounter:
        act = self._provider.adding(name, "counter")
        return _AddingBoth(act, name, unit, description) if act else NoOpUpDownCounter(name)

    def create_histogram(
        self, name: str, unit: str = "", description: str = "", **advice: Any
    ) -> Histogram:
        del advice  # bounds of buckets: the metric's edges are public and its own
        act = self._provider.recording(name, "histogram")
        return _Recording(act, name, unit, description) if act else NoOpHistogram(name)


class _Adding(NoOpCounter):
    def __init__(self, act: Callable[[float], object], *described: str) -> None:
        super().__init__(*described)
        self._act = act

    def add(self, amount: float, attributes: Any = None, context: Any = None) -> None:  # noqa: ARG002
        self._act(amount)


class _AddingBoth(NoOpUpDownCounter):
    def __init__(self, act: Callable[[float], object], *described: str) -> None:
        super().__init__(*described)
        self._act = act

    def add(self, amount: float, attributes: Any = None, context: Any = None) -> None:  # noqa: ARG002
        self._act(amount)


class _Recording(NoOpHistogram):
    def __init__(
        self, act: Callable[[float], object], name: str, unit: str, description: str
    ) -> None:
        super().__init__(name, unit, description)
        self._act = act

    def record(self, amount: float, attributes: Any = None, context: Any = None) -> None:  # noqa: ARG002
        self._act(amount)
