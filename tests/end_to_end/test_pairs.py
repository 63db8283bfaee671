"""A pair metric from a device's call to the files of its table."""

import csv
import json
import random
from pathlib import Path

import pytest

from client_sdk import Encoder
from rappor_cli.main import main
from rappor_core.metrics.file import parse_metrics
from tests.collector.support import TODAY, served_after_a_day
from tests.metric_texts import declaration

TEXT = declaration(
    "theme_crashed", "pair", of=["theme", "crashed"], values={"theme": ["dark", "light",
    "other"], "crashed": [False, True]}, mechanism="l-osue", epsilon_infinity=6.0,
    epsilon_one=4.0, max_memoized_values=3, fallback="other | false", min_reports=10,
    min_reports_per_cohort=1, max_reports_per_period=4,
)  # fmt: skip
DEVICES = 600
SHARES = {("dark", True): 0.3, ("dark", False): 0.1, ("light", False): 0.6}


def test_from_devices_to_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fixed seeds; five standard errors, as the table states them."""
    metric = parse_metrics(TEXT).metrics["theme_crashed"]
    rng = random.Random(3)
    values = rng.choices(list(SHARES), list(SHARES.values()), k=DEVICES)
    encoders = (Encoder({metric.name: metric}, rng.randbytes(32), rng.randbytes) for _ in values)
    pairs = zip(encoders, values, strict=True)
    reports = [one.encode(metric.name, value, TODAY) for one, value in pairs]
    aggregate = served_after_a_day(tmp_path, metric, reports)
    (tmp_path / "pairs.json").write_text(aggregate.to_json())

    command = ["decode", "--set", "repeats=1", "--aggregate", str(tmp_path / "pairs.json")]
    command += ["-o", str(tmp_path / "out")]
    assert main([*command, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["reports"] == DEVICES
    assert content["independence"]["refuted"]
    with (tmp_path / "out" / "joint.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        held = (row["first"], row["second"] == "true")
        share = values.count(held) / DEVICES
        assert abs(float(row["estimate"]) - share) < 5 * float(row["std_error"])
    assert 'class="heat"' in (tmp_path / "out" / "report.html").read_text()

    assert main([*command, "--each=day"]) == 1
    assert "of kind 'pair' has no series" in capsys.readouterr().err
