"""The requests per second that a collector answers after the commit, compared with plain servers.

Every server runs alone in a separate process on 127.0.0.1; one client process keeps connections
busy with batches that were prepared in advance. Rivals:

- plain: FastAPI, a pydantic model, SQLAlchemy, one row per report and one transaction per request;
- bare: an ASGI function with only the same strict decoder, writer and counters."""

from pathlib import Path

import pytest
import uvloop

from benchmarks.collect_load import Load, drive, make_requests
from benchmarks.collect_servers import databases, server
from benchmarks.conftest import OURS, Comparison

WARM_SECONDS, SECONDS, ROUNDS = 0.5, 3.0, 3
ENOUGH = {1: 24_000, 100: 12_000}  # Requests per second; more than any server answers here
PLAIN, BARE = "plain FastAPI and a row a report", "bare ASGI, binary"
CASES = [
    ("sqlite", 100, 32, "json"), ("sqlite", 100, 32, "binary"), ("sqlite", 1, 32, "json"),
    ("sqlite", 1, 32, "binary"), ("sqlite", 100, 8, "json"), ("sqlite", 100, 8, "binary"),
    ("postgresql", 100, 32, "json"), ("postgresql", 100, 32, "binary"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "reports", "connections", "form"), CASES)
@pytest.mark.parametrize("who", [OURS, PLAIN, BARE])
def bench_collect(
    comparison: Comparison,
    tmp_path: Path,
    kind: str,
    reports: int,
    connections: int,
    form: str,
    who: str,
) -> None:
    """Measure how many requests per second a server answers, by wall-clock time."""
    if who == BARE and form == "json":
        pytest.skip("the bare function reads only the binary form")
    sent = Load("json" if who == PLAIN else form, reports)

    def rate(number: int) -> float:
        folder = tmp_path / str(number)
        folder.mkdir()
        name = {OURS: "ours", PLAIN: "plain", BARE: "bare"}[who]
        with server(name, make(), folder) as port:
            warm = int(ENOUGH[reports] * WARM_SECONDS)
            requests = make_requests(sent, warm + int(ENOUGH[reports] * SECONDS))
            uvloop.run(drive(port, requests[:warm], WARM_SECONDS))
            return uvloop.run(drive(port, requests[warm:], SECONDS, connections))

    measured = f"requests a second, {kind}, {reports} a request, {connections} connections, {form}"
    target = {"target": 5.0 if reports == 100 else 3.0} if who == PLAIN else {}
    comparison.name(measured, who, more=True, **target)
    with databases(kind) as make:
        comparison.values(rate, ROUNDS, "/s")
