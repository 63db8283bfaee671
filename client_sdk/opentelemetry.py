"""OpenTelemetry's instruments, recorded through declared metrics: `rappor-telemetry[otel]`.

    from opentelemetry import metrics
    metrics.set_meter_provider(DeclaredMeterProvider(client, load_metrics("metrics.toml")))

A counter adds to the metric of kind `number` with its name and `of_period = "sum"`. A histogram or
a gauge records in a metric with a different `of_period`; an observable gauge is read every minute.
Reports follow the metric's declaration: one randomized answer per period. Everything else is
dropped with one warning: undeclared instruments, attributes and refused amounts.
"""

import logging
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any

from opentelemetry.metrics import (
    CallbackOptions,
    Counter,
    Histogram,
    Meter,
    MeterProvider,
    NoOpCounter,
    NoOpHistogram,
    NoOpMeter,
    NoOpUpDownCounter,
    Observation,
    UpDownCounter,
)
from opentelemetry.metrics import _Gauge as Gauge  # private in name, but public, before 2.0
from opentelemetry.metrics import _NoOpGauge as NoOpGauge

from client_sdk.client import Client
from rappor_core.metrics.metrics_file import MetricsFile

_LOG = logging.getLogger("client_sdk")
_SUM = 'kind = "number" and of_period = "sum"'
_OTHER = 'kind = "number", and an of_period other than "sum"'
_NONE = ""
_TOTAL = "no metric accepts a running total; use a counter"
Act = Callable[..., None]


class DeclaredMeterProvider(MeterProvider):
    """The meter provider for all libraries in a process."""

    def __init__(self, client: Client, metrics: MetricsFile, read_seconds: float = 60.0) -> None:
        """Prepare the provider; nothing is recorded until an instrument is used.

        Args:
            client: An open client.
            metrics: The metrics file with which the client was opened. Names are compared in lower
                case, as in OpenTelemetry.
            read_seconds: The seconds between two reads of observable gauges, greater than 0.
        """
        self._client = client
        numbers = [
            metric
            for metric in metrics.declared
            if metric.rules.collected and metric.location is None
        ]
        sums = {number.name for number in numbers if number.details.of_period == "sum"}
        self._names = {_SUM: sums, _OTHER: {number.name for number in numbers} - sums}
        self._warned: set[str] = set()
        self._read_seconds = read_seconds
        self._gauges: list[tuple[str, Callable[[], Iterable[Observation]], Act]] = []
        self._reading = threading.RLock()  # reentrant: a callback may create another gauge
        self._stopped = threading.Event()
        self._reader: threading.Thread | None = None

    def get_meter(
        self,
        name: str,
        version: str | None = None,
        schema_url: str | None = None,
        attributes: Any = None,  # noqa: ARG002 - dropped
    ) -> Meter:
        """Return a meter; its instruments are matched to metrics by instrument name alone."""
        return _DeclaredMeter(self, name, version, schema_url)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:  # noqa: ARG002 - of callbacks
        """Read all observable gauges now."""
        with self._reading:
            for name, observe, act in self._gauges:
                try:
                    for observation in observe():
                        act(observation.value, observation.attributes)
                except Exception as error:  # from the app's callback: a metric must not crash it
                    self.warn(f"observable gauge {name!r} could not be read", repr(error))
        return True

    def shutdown(self, timeout_millis: float = 30_000) -> None:
        """Read observable gauges one last time. The app itself must close the client."""
        if not self._stopped.is_set():
            self._stopped.set()
            self.force_flush(timeout_millis)

    def acting(self, instrument: str, name: str, needed: str) -> Act | None:
        """Return a function that records an instrument's amounts; None if no metric declares it."""
        metric = name.lower()
        if metric not in self._names.get(needed, ()):
            why = f"no metric of this name is declared with {needed}" if needed else _TOTAL
            self.warn(f"{instrument} {name!r} is dropped", why)
            return None
        take = self._client.add if needed is _SUM else self._client.record

        def act(amount: float, attributes: Any = None) -> None:
            if attributes:
                self.warn(f"attributes of {instrument} {name!r} are dropped", "they never leave")
            if instrument == "counter" and amount < 0:
                self.warn(f"an amount of counter {name!r} is dropped", "it is below 0")
            elif not take(metric, amount):
                what = f"an amount of {instrument} {name!r} is not recorded"
                self.warn(what, self._client.last_refusal)

        return act

    def watch(self, name: str, callbacks: Iterable[Any], act: Act) -> None:
        """Read an observable gauge on a thread, now and then every `read_seconds`."""
        with self._reading:
            self._gauges += [(name, _observer(callback), act) for callback in callbacks]
            if self._reader is None and not self._stopped.is_set():
                self._reader = threading.Thread(
                    target=self._read, name="rappor-gauges", daemon=True
                )
                self._reader.start()

    def _read(self) -> None:
        while not self._stopped.is_set():
            self.force_flush()
            self._stopped.wait(self._read_seconds)

    def warn(self, what: str, why: str = "") -> None:
        """Log what is dropped and why, once per provider."""
        if what not in self._warned:
            self._warned.add(what)
            _LOG.warning("%s", f"{what}: {why}" if why else what)


def _observer(callback: Any) -> Callable[[], Iterable[Observation]]:
    if not isinstance(callback, Generator):
        return lambda: callback(CallbackOptions())
    next(callback, None)  # run to its first `yield`, which yields no amount
    return lambda: callback.send(CallbackOptions())


class _Acting:
    """An instrument whose amounts go to the client."""

    def __init__(self, act: Act, *described: str) -> None:
        super().__init__(*described)
        self._act = act

    def add(self, amount: float, attributes: Any = None, context: Any = None) -> None:  # noqa: ARG002
        """Pass an amount to the client; this is also OpenTelemetry's `record` and `set`."""
        self._act(amount, attributes)

    record = set = add


class _ActingCounter(_Acting, NoOpCounter): ...


class _ActingUpDownCounter(_Acting, NoOpUpDownCounter): ...


class _ActingHistogram(_Acting, NoOpHistogram): ...


class _ActingGauge(_Acting, NoOpGauge): ...


class _DeclaredMeter(NoOpMeter):
    """The meter for one library, whose instruments record only if their metric is declared."""

    def __init__(self, provider: DeclaredMeterProvider, *described: Any) -> None:
        super().__init__(*described)
        self._provider = provider

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        act = self._provider.acting("counter", name, _SUM)
        return _ActingCounter(act, name, unit, description) if act else NoOpCounter(name)

    def create_up_down_counter(
        self, name: str, unit: str = "", description: str = ""
    ) -> UpDownCounter:
        if act := self._provider.acting("up-down counter", name, _SUM):
            return _ActingUpDownCounter(act, name, unit, description)
        return NoOpUpDownCounter(name)

    def create_histogram(
        self, name: str, unit: str = "", description: str = "", **_advice: Any
    ) -> Histogram:
        # the bucket advice is ignored, because the metric has its own public edges
        act = self._provider.acting("histogram", name, _OTHER)
        return _ActingHistogram(act, name, unit, description) if act else NoOpHistogram(name)

    def create_gauge(self, name: str, unit: str = "", description: str = "") -> Gauge:
        act = self._provider.acting("gauge", name, _OTHER)
        return _ActingGauge(act, name, unit, description) if act else NoOpGauge(name)

    def create_observable_gauge(
        self, name: str, callbacks: Any = None, *rest: Any, **more: Any
    ) -> Any:
        if act := self._provider.acting("observable gauge", name, _OTHER):
            self._provider.watch(name, callbacks or (), act)
        return super().create_observable_gauge(name, callbacks, *rest, **more)

    def create_observable_counter(self, name: str, *rest: Any, **more: Any) -> Any:
        self._provider.acting("observable counter", name, _NONE)
        return super().create_observable_counter(name, *rest, **more)

    def create_observable_up_down_counter(self, name: str, *rest: Any, **more: Any) -> Any:
        self._provider.acting("observable up-down counter", name, _NONE)
        return super().create_observable_up_down_counter(name, *rest, **more)
