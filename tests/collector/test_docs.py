"""What docs/operations.md and docs/threats.md state is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collector.app import create_app
from collector.domain.report_validation import REASONS
from collector.problems import STATUS
from collector.settings import Settings, load_settings
from metric_design.review import reports_to_serve
from rappor_core.metrics.metric import DEFAULT_MIN_REPORTS_PER_COHORT
from rappor_core.params import RapporParams
from tests.collector.support import make_metric

DOCS = Path(__file__).parents[2] / "docs"
OPERATIONS = (DOCS / "operations.md").read_text()
THREATS = (DOCS / "threats.md").read_text()


def test_every_setting_and_default_is_listed() -> None:
    table = OPERATIONS.partition("## Settings")[2].partition("## Watching")[0]
    for name, field in Settings.model_fields.items():
        row = next((line for line in table.splitlines() if f"`{name}`" in line), None)
        assert row is not None, name
        default = field.default
        if isinstance(default, bool):
            assert f"| {str(default).lower()} |" in row
        elif isinstance(default, str):
            assert default in row


def test_every_reason_and_status_is_explained() -> None:
    for reason in REASONS:
        assert f"`{reason.value}`" in OPERATIONS
    table = OPERATIONS.partition("| status | when")[2].partition("\n\n")[0]
    for _, status, _ in STATUS:
        if status not in (403, 404):
            assert str(status) in table, status


def test_every_metric_of_prometheus_is_named(sqlite_url: str) -> None:
    app = create_app(load_settings(database=sqlite_url))
    text = app.state.parts.telemetry.render().decode()
    app.state.parts.collector.database.close()
    names = set(re.findall(r"^# TYPE (rappor_\w+) (?:counter|gauge|histogram)$", text, re.M))
    assert names
    for name in names:
        assert f"`{name}" in OPERATIONS or name.endswith("_created"), name


def test_the_floor_is_as_stated() -> None:
    """The noise of a bit count, and that the README's metric has the default floor."""
    params = RapporParams.rappor(
        num_bits=128, num_hashes=2, num_cohorts=32, prob_f=0.75, prob_p=0.5, prob_q=0.75
    )
    for reports, stated in ((100, 4.9), (31, 2.7)):
        noise = sorted((reports * s * (1 - s)) ** 0.5 for s in (params.p_star, params.q_star))
        assert noise[0] - 0.1 < stated < noise[1] + 0.1
        assert f"{stated} for n = {reports}" in THREATS
    words = " ".join(THREATS.split())
    assert f"(default {DEFAULT_MIN_REPORTS_PER_COHORT}, or `min_reports`" in words
    assert 32 * 130 <= reports_to_serve(make_metric(num_cohorts=32, min_reports_per_cohort=None,
                                                    min_reports=1_000)) == 4_161  # fmt: skip


@pytest.mark.parametrize("prob_f", [0, 0.25, 0.5, 0.75])
def test_the_forgers_lever_is_as_stated(prob_f: float) -> None:
    params = RapporParams.rappor(
        num_bits=128, num_hashes=2, num_cohorts=32, prob_f=prob_f, prob_p=0.5, prob_q=0.75
    )
    p, q = params.p_star, params.q_star
    lever = (1 - p) / (q - p)
    honest, forged = 1_000_000, 1_000
    total = honest + forged
    moved = ((p * honest + forged) - p * total) / (q - p) / total  # nobody holds the value
    row = (
        f"| f = {prob_f:g}, p = 0.5, q = 0.75 | {p:.4f} | {q:.4f} | {lever:.1f} | "
        f"{100 * moved:.2f} % |"
    )
    assert row in THREATS, row
