"""From the device over HTTP to a result: one run of each kind of metric."""

import csv
import json
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from client_sdk import Client, Delivery, Encoder, MemoryState, Recorder, Transport
from client_sdk.numbers import NumberRecorder
from client_sdk.testing import FixedRandomness
from collector.server import running_collector
from collector.settings import Settings, load_settings
from decoder import decode, metric_candidates
from decoder.discovery.discovery import discover
from decoder.errors import CandidatesError
from decoder.numbers.decoding import decode_numbers
from decoder.sources.collector_client import ask
from rappor_cli.main import main
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import decode_batch
from rappor_core.wire.report import BINARY_CONTENT_TYPE, make_batch
from simulations.populations.fleet import deliver
from tests.collector.support import NOON, TODAY, served_after_a_day
from tests.discovery_support import site_metric
from tests.metric_texts import declaration
from tests.places_support import Fix, LocationDevice
from tests.waiting import until

METRICS = declaration(
    "homepage", "string", num_bits=64, num_hashes=2, num_cohorts=4, prob_f=0.5, prob_p=0.5,
    prob_q=0.75, max_memoized_values=3, fallback="other", max_reports_per_period=1000,
)  # fmt: skip


def counted(url: str) -> int:
    """Reports of `homepage` that the collector says it accepted."""
    listing = httpx.get(f"{url}/v1/metrics").json()
    (accepted,) = [row["accepted"] for row in listing["metrics"] if row["name"] == "homepage"]
    return int(accepted)


def test_reports_arrive_once_over_restarts_of_both_ends(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS)
    database = f"sqlite:///{tmp_path / 'collector.sqlite'}"
    settings = Settings(database=database, metrics=path, require_keys=False, port=0)
    delivery = Delivery(mean_delay=0, first_pause=0.05, timeout=5)
    choices = {"consent": True, "delivery": delivery, "development": True}

    def run(url: str, number: int, timeout: float = 20.0) -> dict[str, int]:
        state = tmp_path / "state"
        with Client.open(path, state_dir=state, collector=url, **choices) as client:
            for _ in range(number):
                assert client.record("homepage", "a")
            if not timeout:
                until(lambda: client.last_error)
            assert client.flush(timeout), client.last_error
            return client.inspect()["counters"]

    with running_collector(settings) as url:
        run(url, 150)
        assert counted(url) == 150
    with pytest.raises(AssertionError, match="no exchange"):
        run("http://127.0.0.1:9", 50, timeout=0)
    with running_collector(settings) as url:
        counters = run(url, 25)
        assert counted(url) == 225
    assert counters["accepted:homepage"] == 225


DEVICES_NUMBERS = 1_200
FILE = parse_metrics(declaration(
    "startup", "number", unit="ms", of_period="median", edges=[100, 400, 1600],
    none="apart", mode="memo", epsilon_infinity=5.0, epsilon_one=4.0, num_cohorts=8,
    min_reports=10, min_reports_per_cohort=1,
))  # fmt: skip


def test_curve_median_and_no_data_come_back(tmp_path: Path) -> None:
    """Some have no start; medians are about 300. Bounds are five standard errors; fixed seeds."""
    rng, now, reports = random.Random(1), NOON.timestamp(), []
    for _ in range(DEVICES_NUMBERS):
        state = MemoryState(rng.randbytes(32))
        recorder = Recorder(FILE.metrics, state, randomness=rng.randbytes)
        device = NumberRecorder(FILE.metrics, state, recorder)
        device.roll(now)
        if rng.random() < 0.75:
            middle = 300 * rng.lognormvariate(0, 1)
            for factor in (0.5, 1.0, 2.0):
                device.record("startup", middle * factor, now)
        device.roll(now + 86_400)
        reports += state.take_reports()
    startup = decode_numbers(served_after_a_day(tmp_path, FILE.metrics["startup"], reports))
    assert startup.num_reports == DEVICES_NUMBERS
    assert abs(startup.with_data.estimate - 0.75) < 5 * startup.with_data.std_error
    truth = {100.0: 0.864, 400.0: 0.387, 1600.0: 0.047}
    for point in startup.curve:
        assert abs(point.estimate - truth[point.edge]) < 5 * point.std_error
        assert point.band_low <= point.low <= point.high <= point.band_high
    median = next(one for one in startup.quantiles if one.share == 0.5)
    assert (median.low, median.high) == (100.0, 400.0)


TEXT = declaration(
    "theme_crashed", "pair", of=["theme", "crashed"], values={"theme": ["dark", "light",
    "other"], "crashed": [False, True]}, mechanism="l-osue", epsilon_infinity=6.0,
    epsilon_one=4.0, max_memoized_values=3, fallback="other | false", min_reports=10,
    min_reports_per_cohort=1, max_reports_per_period=4,
)  # fmt: skip
DEVICES_PAIRS = 600
SHARES_PAIRS = {("dark", True): 0.3, ("dark", False): 0.1, ("light", False): 0.6}


def test_from_devices_to_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fixed seeds; five standard errors, as the table states them."""
    metric = parse_metrics(TEXT).metrics["theme_crashed"]
    rng = random.Random(3)
    values = rng.choices(list(SHARES_PAIRS), list(SHARES_PAIRS.values()), k=DEVICES_PAIRS)
    encoders = (Encoder({metric.name: metric}, rng.randbytes(32), rng.randbytes) for _ in values)
    pairs = zip(encoders, values, strict=True)
    reports = [one.encode(metric.name, value, TODAY) for one, value in pairs]
    aggregate = served_after_a_day(tmp_path, metric, reports)
    (tmp_path / "pairs.json").write_text(aggregate.to_json())

    command = ["decode", "--set", "repeats=1", "--aggregate", str(tmp_path / "pairs.json")]
    command += ["-o", str(tmp_path / "out")]
    assert main([*command, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["reports"] == DEVICES_PAIRS
    assert content["independence"]["refuted"]
    with (tmp_path / "out" / "joint.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        held = (row["first"], row["second"] == "true")
        share = values.count(held) / DEVICES_PAIRS
        assert abs(float(row["estimate"]) - share) < 5 * float(row["std_error"])
    assert 'class="heat"' in (tmp_path / "out" / "report.html").read_text()

    assert main([*command, "--each=day"]) == 1
    assert "of kind 'pair' has no series" in capsys.readouterr().err


SHARES_DISCOVERY = {"home.example": 0.5, "Shop.example": 0.3}
DEVICES_DISCOVERY = 6_000


def test_strings_are_found_from_served_counts(tmp_path: Path) -> None:
    """Seeds are fixed; the bounds are five standard errors, as the discovery states them."""
    more = "min_reports = 10\nmin_reports_per_cohort = 1\nnum_bits = 64\nnum_cohorts = 25\n"
    metric = site_metric(7.0, more)
    rng = random.Random(5)
    reports = []
    for device in range(DEVICES_DISCOVERY):
        chosen = rng.choices(
            [*SHARES_DISCOVERY, f"only-{device}.example"], [*SHARES_DISCOVERY.values(), 0.2]
        )[0]
        encoder = Encoder({metric.name: metric}, rng.randbytes(32), rng.randbytes)
        reports.append(encoder.encode(metric.name, chosen, TODAY))
    assert encoder.encode("site", chosen, TODAY) == reports[-1]  # the same for life
    with pytest.raises(ValueRefusedError, match="takes a string"):
        encoder.encode("site", 3, TODAY)

    batch = make_batch(os.urandom(16), reports[:100])
    read = decode_batch(encode_binary(batch), BINARY_CONTENT_TYPE).ungrouped()
    assert sorted(read.reports) == sorted(batch.reports)

    aggregate = served_after_a_day(tmp_path, metric, reports)

    found = {row.string: row for row in discover(aggregate).found}
    assert set(found) == {"home.example", "shop.example"}
    for string, share in SHARES_DISCOVERY.items():
        assert abs(found[string.lower()].estimate - share) < 5 * found[string.lower()].std_error
    with pytest.raises(CandidatesError, match="find strings with rappor discover"):
        decode(aggregate, metric_candidates(aggregate))


DECLARED = declaration(
    "places", "location", grid="square", box=[0, 0, 4, 4], rows=4, columns=4, levels=[0],
    slots=["night 22-6", "day 6-22"], min_reports=100, min_reports_per_cohort=20,
    mode="memo", encoding="symbol", num_symbols=4, num_cohorts=8, epsilon_infinity=6.0,
    epsilon_one=5.0,
)  # fmt: skip
DEVICES_PLACES = 300


def test_fixes_become_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(DECLARED)
    metrics = load_metrics(path)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start, random = today - timedelta(days=1), FixedRandomness(5)
    reports = []
    for number in range(DEVICES_PLACES):
        night = (0.5, 0.5) if number % 4 else (3.5, 3.5)
        fixes = [
            Fix(start + timedelta(hours=2), *night),
            Fix(start + timedelta(hours=12), 2.5, 1.5),
        ]
        reports += LocationDevice(metrics, random).live(
            "places", fixes, today + timedelta(minutes=1)
        )
    assert len(reports) == 2 * DEVICES_PLACES
    settings = load_settings(
        port=0, host="127.0.0.1", database=f"sqlite:///{tmp_path / 'places.sqlite'}",
        metrics=path, require_keys=False, log_level="error",
    )  # fmt: skip
    with running_collector(settings) as url:
        with Transport(url) as transport:
            delivery = deliver(reports, transport, randomness=random)
        assert delivery.accepted == 2 * DEVICES_PLACES, delivery.refused
        ask(url, f"/v1/days/{start.date()}/close", method="POST")
        assert main(["density", "places", "--collector", url, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    shares = {(row["slot"], row["cell"]): row["map_share"] for row in rows}
    assert shares["night", "0-0-0"] == pytest.approx(0.75, abs=0.12)
    assert shares["night", "0-3-3"] == pytest.approx(0.25, abs=0.12)
    assert shares["day", "0-2-1"] > 0.85
