"""`MetricsFile`: all metrics in an app, and their privacy cost per device."""

from collections.abc import Mapping

from rappor_core.errors import MetricsFileError, meant, shown
from rappor_core.frozen import Frozen
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.validation import APP, WEB, Platform
from rappor_core.params import is_positive


class MetricsFile(Frozen):
    """All metrics in an app, by name, and the privacy budget per device."""

    metrics: Mapping[str, Metric]  # a location appears as its sub-metrics, `name/slot/level`
    budget: float | None = None  # nats per device lifetime, over all metrics; None if unlimited

    @property
    def lifetime_epsilon(self) -> float:
        """Return the total lifetime epsilon, in nats, on the platform where it is higher."""
        return max(self.lifetime_epsilon_on(platform) for platform in (APP, WEB))

    def lifetime_epsilon_on(self, platform: Platform) -> float:
        """Return the lifetime epsilon of all metrics on a platform, in nats.

        For `web`, it covers all declared lifetimes of the browser's storage.
        """
        return sum(
            metric.lifetime_epsilon_on(platform)
            for metric in self.declared
            if platform in metric.platforms
        )

    @property
    def declared(self) -> tuple[Metric, ...]:
        """Return one metric per declared name, which for a location is its first sub-metric."""
        first: dict[str, Metric] = {}
        for metric in self.metrics.values():
            first.setdefault(metric.base_name, metric)
        return tuple(first.values())

    def __str__(self) -> str:
        names = ", ".join(metric.base_name for metric in self.declared)
        return f"metrics {names}; budget {'none' if self.budget is None else f'{self.budget:g}'}"

    def parts(self, name: str) -> tuple[Metric, ...]:
        """Return the sub-metrics of a declared name, in order, or the metric itself if it has none.

        Raises MetricsFileError if the name is not declared.
        """
        sub_metrics = tuple(m for m in self.metrics.values() if m.base_name == name)
        if not sub_metrics:
            names = ", ".join(metric.base_name for metric in self.declared)
            near = meant(name, (metric.base_name for metric in self.declared))
            raise MetricsFileError(f"metric {name!r} is not declared{near}; declared are {names}")
        return sub_metrics


def read_budget(value: object) -> float | None:
    """Read a declared budget in nats; None if absent. Raises MetricsFileError if invalid."""
    if value is None:
        return None
    if not is_positive(value):
        raise MetricsFileError(f"budget = {shown(value)} is not a positive number of nats")
    return float(value)  # type: ignore[arg-type]


def check_budget(file: MetricsFile) -> None:
    """Check that the metrics' cost is within the budget. Raises MetricsFileError otherwise."""
    if file.budget is None or file.lifetime_epsilon <= file.budget:
        return
    on: Platform = WEB if file.lifetime_epsilon_on(WEB) > file.lifetime_epsilon_on(APP) else APP
    there = [metric for metric in file.declared if on in metric.platforms]
    worst = max(there, key=lambda metric: metric.lifetime_epsilon_on(on))
    lives = f", lives = {worst.lives}" if on == WEB else ""
    raise MetricsFileError(
        f"budget = {file.budget:g} is below the {file.lifetime_epsilon:.3f} that the metrics may "
        f"cost a device over its lifetime; {worst.base_name!r} alone may cost "
        f"{worst.lifetime_epsilon_on(on):.3f} (max_memoized_values = {worst.max_memoized_values}, "
        f"epsilon_infinity = {worst.params.epsilon_infinity:.3f}{lives}): "
        "lower its cap or its epsilon, or raise the budget"
    )
