"""`kill -9` under load: nothing acknowledged is lost, nothing is counted twice."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from tests.collector.crash import METRIC, SENDERS, crash_test
from tests.collector.support import make_bench

KILLS = int(os.environ.get("RAPPOR_KILLS", "5"))


@pytest.mark.slow
def test_killed_at_random_moments_it_loses_and_doubles_nothing(database_url: str) -> None:
    """5 kills here; RAPPOR_KILLS=200 for the long form."""
    bench = make_bench(database_url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    tally = crash_test(database_url, KILLS)
    assert tally.refused == 0
    assert tally.reports > SENDERS * KILLS
    print(f"{KILLS} kills, {tally.reports} reports acknowledged, {tally.duplicates} duplicates")
    tally.assert_counted(bench)
