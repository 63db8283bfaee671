"""Nothing that identifies a sender is stored or logged; batches cannot be put together again."""

import io
from hashlib import blake2b
from pathlib import Path

import pytest
from sqlalchemy import select

from collector.domain.submission import Submission, decode_batch_json
from collector.store.batches import hash_of_id, keyed_digest
from collector.store.models import batches, metadata
from rappor_core.calendar import day_of
from rappor_core.metrics.metric import Metric
from rappor_server.logs import make_log
from tests.collector.database_copies import copy_database
from tests.collector.support import TODAY, Bench, Sender, make_metric

METRIC = make_metric(num_bits=128, min_reports=1)
MARKERS = {
    "user-agent": "Marker-Agent/7.3",
    "x-forwarded-for": "203.0.113.77",
    "cookie": "session=marker-cookie",
    "referer": "https://marker.example/page",
    "x-device-id": "marker-device",
}


def test_markers_are_in_no_file_and_no_log(serving, tmp_path, capfd) -> None:
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


def test_no_column_could_hold_arrival() -> None:
    tables = metadata.tables.values()
    names = {column.name for table in tables for column in table.columns}
    for table in ("counters", "block_counts", "batches", "raw_reports"):
        assert "rowid" not in metadata.tables[table].columns
        assert metadata.tables[table].dialect_options["sqlite"]["with_rowid"] is False
    assert not names & {"address", "ip", "user_agent", "received", "received_at", "headers"}


def test_tables_forget_the_order_of_reports(tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("with_pg_programs")
def test_made_up_bodies_cannot_be_checked_in_backups(bench, database_url, tmp_path) -> None:
    """The attack: a body of one report of 2 bits has few forms, but for its random batch id.

    Who holds a backup tries all of them with every 16 bytes that it holds alongside the digests,
    under each way of making a digest that the code has. With the ids in clear it found 60 of 60.
    """
    small = make_metric("small", num_bits=2, num_cohorts=1, min_reports=1)
    bench.collector.push_metrics([small], "test")
    bodies = [bench.sender.body(bench.sender.reports(small, 1)) for _ in range(60)]
    sent = [_as_routed(body) for body in bodies]
    bench.writer.write(sent)
    copy = tmp_path / "stolen.backup"
    copy_database(database_url, copy)
    held = copy.read_bytes()
    with bench.database.read() as connection:
        rows = [tuple(map(bytes, row)) for row in
                connection.execute(select(batches.c.batch_hash, batches.c.digest))]  # fmt: skip
    assert len(rows) == 60
    assert _rebuilt(small, rows) == 0
    in_clear = [(bytes.fromhex(one.batch.batch_id), one.digest) for one in sent]
    assert _rebuilt(small, in_clear) == 60  # the attack itself works
    for batch_id, digest in in_clear:
        assert batch_id not in held
        assert batch_id.hex().encode() not in held
        assert digest not in held
        assert digest.hex().encode() not in held


def _as_routed(body: bytes) -> Submission:
    """Submit as the route hands a body on, with its digest."""
    digest = blake2b(body, digest_size=16).digest()
    return Submission(decode_batch_json(body), digest, len(body))


def _rebuilt(metric: Metric, rows: list[tuple[bytes, ...]]) -> int:
    found = 0
    for key, digest in rows:
        bodies = (
            Sender().body([Sender().report(metric, TODAY, cohort=0, bits=bytes([bits]))], key)
            for bits in range(4)
        )
        ways = (_as_routed(body).digest for body in bodies)
        found += any(digest in (one, keyed_digest(key, one), hash_of_id(one)) for one in ways)
    return found


def test_a_batch_is_known_by_a_constant_hash() -> None:
    """What was stored must be found for as long as batches are kept."""
    batch_id, digest = bytes(range(16)), bytes(range(16, 32))
    assert hash_of_id(batch_id).hex() == "00b61945d933952fefb988939407de34"
    assert keyed_digest(batch_id, digest).hex() == "04ec31e92e43dd8bd233bd89e457807a"


def test_a_remembered_batch_holds_no_bits(bench: Bench) -> None:
    bench.collector.push_metrics([METRIC], "test")
    bench.send(bench.sender.reports(METRIC, 50))
    with bench.database.read() as connection:
        row = connection.execute(select(batches)).one()
    assert (len(row.batch_hash), len(row.digest), row.results) == (16, 16, b"")
    assert row.expires == day_of(TODAY) + METRIC.accept_days
