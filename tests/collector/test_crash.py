"""`kill -9` under load: nothing acknowledged is lost, nothing is counted twice."""

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from rappor_core.ohttp.encapsulation import KeyConfig
from tests.collector.crash import METRIC, SENDERS, crash_test, send_until
from tests.collector.support import make_bench
from tests.relay_support import Behind, new_keys


def post_by_relay(config: KeyConfig, http: httpx.Client, body: bytes) -> tuple[int, bytes]:
    """Each try is an encapsulation of its own, as a device makes them."""
    answer = Behind(http, config).post(body)
    return answer.status, answer.content


KILLS = int(os.environ.get("RAPPOR_KILLS", "3"))


@pytest.mark.parametrize(
    ("database_url", "way", "kills"),
    [
        ("sqlite", "direct", 1),
        pytest.param("sqlite", "direct", KILLS, marks=pytest.mark.long),
        pytest.param("postgresql", "relay", KILLS, marks=pytest.mark.long),
    ],
    indirect=["database_url"],
)
def test_killed_at_random_it_counts_each_once(
    database_url: str, way: str, kills: int, tmp_path: Path
) -> None:
    """Each kind of database and each way once; RAPPOR_KILLS=200 for the figures of the page."""
    bench = make_bench(database_url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    if way == "direct":
        tally = crash_test(database_url, kills)
    else:
        file, (config,) = new_keys(tmp_path)
        send = partial(send_until, post=partial(post_by_relay, config))
        tally = crash_test(database_url, kills, send=send, RAPPOR_OHTTP_KEYS=str(file))
    assert tally.refused == 0
    assert tally.reports > SENDERS * kills
    print(f"{kills} kills, {tally.reports} reports acknowledged, {tally.duplicates} duplicates")
    tally.assert_counted(bench)
