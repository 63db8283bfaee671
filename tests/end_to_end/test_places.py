"""A place's whole life: fixes on devices, HTTP, a real collector, a closed day, a map."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from client_sdk import Transport
from client_sdk.testing import FixedRandomness
from collector.server import running_collector
from collector.settings import load_settings
from decoder.sources.collector_client import ask
from rappor_cli.main import main
from rappor_core.metrics.compiled import load_metrics
from simulations.populations.fleet import deliver
from tests.metric_texts import declaration
from tests.places_support import Fix, LocationDevice

DECLARED = declaration(
    "places", "location", grid="square", box=[0, 0, 4, 4], rows=4, columns=4, levels=[0],
    slots=["night 22-6", "day 6-22"], min_reports=100, min_reports_per_cohort=20,
    mode="memo", encoding="symbol", num_symbols=4, num_cohorts=8, epsilon_infinity=6.0,
    epsilon_one=5.0,
)  # fmt: skip
DEVICES = 300


def test_fixes_become_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(DECLARED)
    metrics = load_metrics(path)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start, random = today - timedelta(days=1), FixedRandomness(5)
    reports = []
    for number in range(DEVICES):
        night = (0.5, 0.5) if number % 4 else (3.5, 3.5)
        fixes = [
            Fix(start + timedelta(hours=2), *night),
            Fix(start + timedelta(hours=12), 2.5, 1.5),
        ]
        reports += LocationDevice(metrics, random).live(
            "places", fixes, today + timedelta(minutes=1)
        )
    assert len(reports) == 2 * DEVICES
    settings = load_settings(
        port=0, host="127.0.0.1", database=f"sqlite:///{tmp_path / 'places.sqlite'}",
        metrics=path, require_keys=False, log_level="error",
    )  # fmt: skip
    with running_collector(settings) as url:
        with Transport(url) as transport:
            delivery = deliver(reports, transport, randomness=random)
        assert delivery.accepted == 2 * DEVICES, delivery.refused
        ask(url, f"/v1/days/{start.date()}/close", method="POST")
        assert main(["density", "places", "--collector", url, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    shares = {(row["slot"], row["cell"]): row["map_share"] for row in rows}
    assert shares["night", "0-0-0"] == pytest.approx(0.75, abs=0.12)
    assert shares["night", "0-3-3"] == pytest.approx(0.25, abs=0.12)
    assert shares["day", "0-2-1"] > 0.85
