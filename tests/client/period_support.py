"""A metric with a limit by period, `m`."""

from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from tests.metric_texts import declaration

METRIC = declaration(
    "m", "string", expires="2399-01-01", num_bits=16, num_hashes=2, num_cohorts=1,
    prob_f=0.5, prob_p=0.5, prob_q=0.75, max_memoized_values=3, fallback="other",
)  # fmt: skip


def file_of(period: str = "day", most: int = 1, more: str = "") -> MetricsFile:
    limit = f'period = "{period}"\nmax_reports_per_period = {most}\n'
    return parse_metrics(METRIC + limit + more)


def declared(period: str = "day", most: int = 1, more: str = "") -> dict[str, Metric]:
    return dict(file_of(period, most, more).metrics)
