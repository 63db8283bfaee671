"""Several processes on one port and one PostgreSQL: one sum, one count of everything."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx

from tests.collector.crash import METRIC, Tally, await_ready, listening, port_of, send_until, start
from tests.collector.support import make_bench


def test_two_workers_count_together(new_postgresql: Callable[[], str]) -> None:
    url = new_postgresql()
    bench = make_bench(url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    tally, stop = Tally(), threading.Event()
    with listening() as listener:
        port = port_of(listener)
        process = start(url, listener, workers=2)
        try:
            await_ready(port)
            threads = [
                threading.Thread(target=send_until, args=(port, seed, stop, tally))
                for seed in range(6)
            ]
            for thread in threads:
                thread.start()
            time.sleep(3)
            stop.set()
            for thread in threads:
                thread.join()
            counts = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        finally:
            process.terminate()
            process.wait(30)
    assert process.returncode == 0
    found = re.search(r"^rappor_reports_accepted_total (\S+)$", counts, re.MULTILINE)
    assert found is not None
    assert float(found[1]) == tally.reports  # of both workers, whichever answered
    bench.collector.close_day(bench.clock.now.date(), "test")
    assert bench.collector.read_aggregate("test", METRIC.name).num_reports == tally.reports
    bench.database.close()
