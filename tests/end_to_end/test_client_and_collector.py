"""The real client against the real collector, over real HTTP: every report is counted once."""

import httpx
import pytest

from client_sdk import Client, Delivery
from collector.server import running_collector
from collector.settings import Settings
from tests.metric_texts import declaration
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
