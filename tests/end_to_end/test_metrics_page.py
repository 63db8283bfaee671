"""docs/metrics.md is the whole reference."""

import re
from datetime import date
from pathlib import Path

from metric_design.review import check_metrics
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.kinds import KINDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
TOML = re.compile(r"^```toml\n(.*?)^```", re.M | re.S)
TODAY = date(2026, 11, 22)


def test_every_kind_has_an_example_that_passes() -> None:
    kinds = set()
    for text in TOML.findall(PAGE):
        file = parse_metrics(text)
        kinds |= {metric.kind for metric in file.declared}
        findings = list(check_metrics(file, today=TODAY, population=1_000_000))
        assert not [f for f in findings if f.level == "error"]
    assert kinds == set(KINDS)
