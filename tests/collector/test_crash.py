"""`kill -9` under load: nothing acknowledged is lost, nothing is counted twice."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from ohttp.key_config import KeyConfig
from tests.collector.crash import METRIC, SENDERS, crash_test, send_until
from tests.collector.support import make_bench
from tests.relay_support import Behind, new_keys


def post_by_relay(config: KeyConfig, http: httpx.Client, body: bytes) -> tuple[int, bytes]:
    """Each try is an encapsulation of its own, as a device makes them."""
    answer = Behind(http, config).post(body)
    return answer.status, answer.content


KILLS = int(os.environ.get("RAPPOR_KILLS", "3"))


LONG = pytest.mark.long


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database_url", "way"),
    [
        ("sqlite", "direct"),
        pytest.param("sqlite", "relay", marks=LONG),
        pytest.param("postgresql", "direct", marks=LONG),
        ("postgresql", "relay"),
    ],
    indirect=["database_url"],
)
def test_killed_at_random_it_counts_each_once(database_url: str, way: str, tmp_path: Path) -> None:
    """3 kills here; RAPPOR_KILLS=200 for the long form."""
    bench = make_bench(database_url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    if way == "direct":
        tally = crash_test(database_url, KILLS)
    else:
        file, (config,) = new_keys(tmp_path)
        send = partial(send_until, post=partial(post_by_relay, config))
        tally = crash_test(database_url, KILLS, send=send, RAPPOR_OHTTP_KEYS=str(file))
    assert tally.refused == 0
    assert tally.reports > SENDERS * KILLS
    print(f"{KILLS} kills, {tally.reports} reports acknowledged, {tally.duplicates} duplicates")
    tally.assert_counted(bench)
