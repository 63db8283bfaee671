"""Several processes on one port and one PostgreSQL: one sum, one count of everything."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.collector.crash import (
    METRIC,
    Tally,
    await_more,
    await_ready,
    listening,
    port_of,
    senders,
    start,
)
from tests.collector.support import make_bench
from tests.waiting import until


def test_workers_have_every_setting_and_their_supervisors_end(
    new_postgresql: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a setting that is a list: workers read the environment, where a list is JSON. They end
    when the process that started them was killed."""
    origin = "https://app.example.org"
    monkeypatch.setenv("RAPPOR_ALLOWED_ORIGINS", f'["{origin}"]')
    monkeypatch.setenv("RAPPOR_MAX_REQUESTS_PER_KEY", "1e9")
    with listening() as listener:
        process = start(new_postgresql(), listener, workers=2)
        try:
            await_ready(port_of(listener))
            url = f"http://127.0.0.1:{port_of(listener)}/v1/reports"
            for _ in range(20):  # each over a connection of its own, to whichever worker takes it
                answer = httpx.post(url, content=b"x", headers={"Origin": origin})
                assert answer.headers["access-control-allow-origin"] == origin
            counts = httpx.get(url.replace("/v1/reports", "/metrics")).text
            assert f'rappor_requests_total{{status="{answer.status_code}"}} 20.0' in counts
            workers = children_of(process.pid)
            assert len(workers) >= 2
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10)
            until(lambda: not any(map(is_running, workers)), 30)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """The processes that it started, by Linux's own list."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in children.split()]


def is_running(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


@pytest.mark.long
def test_killed_hosts_and_workers_count_each_once(
    new_postgresql: Callable[[], str],
) -> None:
    """One database, two supervisors: whole hosts and single workers are killed under load."""
    url = new_postgresql()
    bench = make_bench(url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    tally, rng = Tally(), random.Random(11)
    with listening() as listener:
        port = port_of(listener)
        hosts = [start(url, listener, workers=2) for _ in range(2)]
        try:
            await_ready(port)
            with senders(port, tally):
                for kill in range(8):
                    time.sleep(rng.uniform(0.1, 0.5))
                    if kill % 2:
                        os.killpg(hosts[0].pid, signal.SIGKILL)
                        hosts[0].wait()
                        hosts[0] = start(url, listener, workers=2)
                    elif workers := children_of(hosts[1].pid):
                        os.kill(
                            rng.choice(workers), signal.SIGKILL
                        )  # its supervisor starts another
                await_ready(port)
                await_more(tally)
        finally:
            for host in hosts:
                host.terminate()
            for host in hosts:
                host.wait(30)
    assert tally.refused == 0
    assert tally.reports > 100
    tally.assert_counted(bench)


def test_a_writer_rereads_what_another_wrote(
    new_postgresql: Callable[[], str],
) -> None:
    url = new_postgresql()
    benches = [make_bench(url) for _ in range(2)]
    benches[0].collector.push_metrics([METRIC], "test")
    for _ in range(5):
        for bench in benches:
            bench.send(bench.sender.reports(METRIC, 2))
    assert benches[0].collector.list_metrics()[0]["accepted"] == 20
    for bench in benches:
        bench.database.close()
