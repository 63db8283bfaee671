from __future__ import annotations

from collections.abc import Iterator

import pytest

from client_sdk.testing import MemoryCollector
from rappor_core.metrics_file import MetricsFile, parse_metrics

METRICS = """
[metrics.homepage]
kind = "string"
description = "Home page of the browser"
owner = "web-team@example.org"
expires = 2099-06-30
num_bits = 128
num_hashes = 2
num_cohorts = 32
prob_f = 0.5
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
max_reports_per_period = 10000

[metrics.theme]
kind = "category"
description = "Colours in use"
owner = "web-team@example.org"
expires = 2099-06-30
categories = ["light", "dark", "system"]
max_memoized_values = 3
prob_f = 0.5
prob_p = 0.5
prob_q = 0.75
num_cohorts = 4

[metrics.crashed]
kind = "boolean"
description = "Whether the last run ended by itself"
owner = "web-team@example.org"
expires = 2099-06-30
prob_f = 0.5
prob_p = 0.35
prob_q = 0.65
max_reports_per_period = 10
"""


@pytest.fixture(scope="session")
def metrics() -> MetricsFile:
    return parse_metrics(METRICS)


@pytest.fixture
def collector(metrics: MetricsFile) -> Iterator[MemoryCollector]:
    with MemoryCollector(metrics.metrics) as running:
        yield running
