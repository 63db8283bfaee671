"""A pair metric from a device's call to the files of its table."""

import csv
import json
import random
from pathlib import Path

from client_sdk import Client, Encoder
from client_sdk.testing import MemoryCollector
from rappor_core.metrics.file import parse_metrics
from tests.collector.support import TODAY, served_after_a_day
from tests.end_to_end.command import run
from tests.metric_texts import declaration

TEXT = declaration(
    "theme_crashed", "pair", of=["theme", "crashed"], values={"theme": ["dark", "light",
    "other"], "crashed": [False, True]}, mechanism="l-osue", epsilon_infinity=6.0,
    epsilon_one=4.0, max_memoized_values=3, fallback="other | false", min_reports=10,
    min_reports_per_cohort=1, max_reports_per_period=4,
)  # fmt: skip
DEVICES = 600
SHARES = {("dark", True): 0.3, ("dark", False): 0.1, ("light", False): 0.6}


def test_the_cap_counts_changes_of_either_side(tmp_path: Path) -> None:
    """Three places: the fallback and two pairs; a third pair is sent as the fallback."""
    metrics = parse_metrics(TEXT)
    path = tmp_path / "metrics.toml"
    path.write_text(TEXT)
    with (
        MemoryCollector(metrics.metrics) as collector,
        Client.open(
            path, state_dir=tmp_path / "state", collector=collector.url, consent=True
        ) as client,
    ):
        name = "theme_crashed"
        assert client.record(name, ("dark", False))
        assert client.record(name, ("dark", True))  # one side changed: a new pair
        assert client.record(name, ("dark", False))
        assert client.record(name, ("light", True))  # past the cap: the fallback
        assert not client.record(name, ("pink", True))
        assert "the value of 'theme' is not one of its 3" in client.last_refusal
        assert "pink" not in client.last_refusal
        assert client.flush(20)
        line = json.dumps(client.inspect())
        assert "pink" not in line
        assert collector.counted() == {name: 4}


def test_from_devices_to_files(tmp_path: Path) -> None:
    """Fixed seeds; five standard errors, as the table states them."""
    metric = parse_metrics(TEXT).metrics["theme_crashed"]
    rng = random.Random(3)
    values = rng.choices(list(SHARES), list(SHARES.values()), k=DEVICES)
    reports = [
        Encoder({metric.name: metric}, rng.randbytes(32), rng.randbytes).encode(
            metric.name, value, TODAY
        )
        for value in values
    ]
    aggregate = served_after_a_day(tmp_path, metric, reports)
    (tmp_path / "pairs.json").write_text(aggregate.to_json())

    command = ["decode", "--set", "repeats=1", "--aggregate", str(tmp_path / "pairs.json")]
    command += ["-o", str(tmp_path / "out")]
    content = json.loads(run(*command, "--json").stdout)
    assert content["reports"] == DEVICES
    assert content["independence"]["refuted"]
    with (tmp_path / "out" / "joint.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        held = (row["first"], row["second"] == "true")
        share = values.count(held) / DEVICES
        assert abs(float(row["estimate"]) - share) < 5 * float(row["std_error"])
    assert 'class="heat"' in (tmp_path / "out" / "report.html").read_text()

    assert "of kind 'pair' has no series" in run(*command, "--each=day", returns=1).stderr
