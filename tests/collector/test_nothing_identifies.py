"""Nothing that identifies a sender is stored or logged; batches cannot be put together again."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from sqlalchemy import select

from collector.logs import make_log
from collector.store.models import batches, metadata
from tests.collector.support import TODAY, Bench, ServerMaker, make_metric

METRIC = make_metric(num_bits=128, min_reports=1)
MARKERS = {
    "user-agent": "Marker-Agent/7.3",
    "x-forwarded-for": "203.0.113.77",
    "cookie": "session=marker-cookie",
    "referer": "https://marker.example/page",
    "x-device-id": "marker-device",
}


def test_markers_are_in_no_file_and_no_log(
    serving: ServerMaker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving([METRIC], log_level="debug") as server:
        bits = b"MARKERBITS16BYTE"
        plain = server.sender.report(METRIC, bits=bits)
        body = server.sender.body([plain, *server.sender.reports(METRIC, 30)])
        assert server.post_body(body, **MARKERS).status_code == 200
        assert server.post_body(b"{marker-garbage", **MARKERS).status_code == 400
        assert server.http.get("/marker-path", headers=MARKERS).status_code == 404
        bad = server.sender.body([server.sender.report(METRIC, metric="marker-metric")])
        assert server.post_body(bad, **MARKERS).status_code == 200
        files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    files |= {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert any(path.name.endswith("-wal") and content for path, content in files.items())
    out, err = capfd.readouterr()
    haystacks = {**files, "stdout": out.encode(), "stderr": err.encode()}
    needles = [*MARKERS.values(), "MARKERBITS16BYTE", "marker-", "127.0.0.1", "203.0.113"]
    for where, content in haystacks.items():
        for needle in needles:
            assert needle.encode().lower() not in content.lower(), (where, needle)
    assert METRIC.name.encode() in b"".join(files.values())  # the search can find what is there


def test_a_defect_is_logged_without_its_message() -> None:
    stream = io.StringIO()
    try:
        raise ValueError("marker: what the request held")
    except ValueError as error:
        make_log("info", stream).crash(error)
    assert "ValueError" in stream.getvalue()
    assert "marker" not in stream.getvalue()


def test_no_column_could_hold_a_time_or_an_order_of_arrival() -> None:
    names = {column.name for table in metadata.tables.values() for column in table.columns}
    for table in ("counters", "block_counts", "batches", "raw_reports"):
        assert "rowid" not in metadata.tables[table].columns
        assert metadata.tables[table].dialect_options["sqlite"]["with_rowid"] is False
    assert not names & {"address", "ip", "user_agent", "received", "received_at", "headers"}


def test_tables_are_the_same_in_whatever_order_reports_came(
    tmp_path: Path,
) -> None:
    """The stored rows of counters and batches do not tell the order of arrival."""
    from tests.collector.support import make_bench, submission

    contents = []
    bodies: list[bytes] = []
    for name in ("one", "two"):
        bench = make_bench(f"sqlite:///{tmp_path}/{name}.sqlite")
        bench.collector.push_metrics([METRIC], "test")
        bodies = bodies or [
            bench.sender.body(bench.sender.reports(METRIC, 4), bytes([n]) * 16) for n in range(20)
        ]
        for body in bodies if name == "one" else bodies[::-1]:
            bench.writer.write([submission(body)])
        with bench.database.read() as connection:
            contents.append(
                [
                    [tuple(row) for row in connection.execute(select(metadata.tables[table]))]
                    for table in ("counters", "batches")
                ]
            )
        bench.database.close()
    assert contents[0] == contents[1]


def test_a_remembered_batch_holds_no_bits(bench: Bench) -> None:
    bench.collector.push_metrics([METRIC], "test")
    bench.send(bench.sender.reports(METRIC, 50))
    with bench.database.read() as connection:
        row = connection.execute(select(batches)).one()
    assert (len(row.batch_id), len(row.digest), row.results) == (16, 16, b"")
    assert row.expires == (TODAY - TODAY.fromisoformat("1970-01-01")).days + METRIC.accept_days
