"""From a real collector's database into an archive, by the command; and killed on the way."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.archive.parts import read_entries
from collector.archive.store import open_store
from collector.domain import raw_blocks
from collector.domain.raw_blocks import RawBlocks
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.wire.report import Report
from tests.collector.archive.support import stored_rows
from tests.collector.support import Bench, make_bench, make_metric

pytestmark = pytest.mark.long  # minutes in all

ROOT = Path(__file__).parents[3]
KILLS = int(os.environ.get("RAPPOR_KILLS", "2"))
KEPT = make_metric("kept", keep_raw_days=30, accept_days=21)  # the long form fills 20 days


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    """A collector whose clock is the real one, as the command's is."""
    made = make_bench(database_url)
    made.clock.now = datetime.now(UTC)
    yield made
    made.database.close()


def fill(bench: Bench, sizes: list[int]) -> list[Report]:
    """So many reports of the last days, the days closed."""
    today = bench.clock.now.date()
    bench.collector.push_metrics([KEPT, make_metric("not-kept")], "test")
    days = [today - timedelta(days=number) for number in range(len(sizes))][::-1]
    reports = []
    for day, size in zip(days, sizes, strict=True):
        sent = bench.sender.reports(KEPT, size, day)
        for start in range(0, size, 5_000):
            (outcome,) = bench.send(sent[start : start + 5_000])
            assert outcome.accepted == len(sent[start : start + 5_000])
        reports += sent
    bench.collector.close_day(today, "test")
    return reports


def in_archive(folder: Path) -> Counter[tuple[int, bytes]]:
    store = open_store(str(folder))
    entries = read_entries(store)
    return Counter(row for entry in entries for row in stored_rows(store, entry.file))


def raw_left(bench: Bench) -> int:
    return sum(block.num_raw for block in RawBlocks(bench.database).blocks())


def test_the_command_moves_reports_once_and_sums(
    bench: Bench,
    database_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two days too small for a block are merged, an empty one is between; pages are small."""
    monkeypatch.setattr(raw_blocks, "PAGE", 10)
    monkeypatch.setattr(raw_blocks, "_MIN_PAGE", 3)
    monkeypatch.setattr(raw_blocks, "_DELETED_AT_ONCE", 4)
    reports = fill(bench, [7, 0, 9, 120])
    archive, output = tmp_path / "archive", tmp_path / "sum.json"
    export = ["archive", "export", str(archive), "--database", database_url]
    assert main([*export, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [block["reports"] for block in found["blocks"]] == [16, 120]
    assert found["moved"] == len(reports)
    assert raw_left(bench) == 0
    assert in_archive(archive) == Counter((one.cohort, one.bits) for one in reports)
    assert main(["archive", "sum", str(archive), "kept", "-o", str(output)]) == 0
    assert Aggregate.from_json(output.read_text()) == bench.collector.read_aggregate("test", "kept")
    assert output.read_text() == bench.collector.read_aggregate("test", "kept").to_json()
    noted = {row.act for row in bench.collector.read_audit(20)}
    assert "move-raw" in noted
    assert main(export) == 0
    assert main([*export, "--metric", "nothing"]) == 1
    assert main(["archive", "verify", str(archive)]) == 0
    assert main(["archive", "verify", str(tmp_path / "nowhere")]) == 1


def start_export(database: str, archive: Path) -> subprocess.Popen[bytes]:
    command = ["archive", "export", str(archive), "--database", database]
    return subprocess.Popen(
        [sys.executable, "-m", "rappor_cli", *command],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_exports(bench: Bench, database: str, archive: Path) -> int:
    """Kill exports while work is left, then let one end; how many were killed."""
    rng, killed, folder = random.Random(3), 0, archive.parent
    while killed < KILLS and raw_left(bench):
        running = [start_export(database, archive) for _ in range(1 + killed % 2)]
        seen = len(list(folder.rglob("*")))
        while len(list(folder.rglob("*"))) == seen and running[0].poll() is None:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        killed += 1
    last = start_export(database, archive)
    assert last.wait(120) == 0
    assert killed
    return killed


def test_killed_at_random_each_report_moves_once(bench, database_url, tmp_path) -> None:
    """While work is left; at half of the kills two exports run at once."""
    reports = fill(bench, [3_000] * 3 if KILLS < 20 else [20_000] * 20)
    archive = tmp_path / "archive"
    print(f"{kill_exports(bench, database_url, archive)} kills, {len(reports)} reports")
    assert raw_left(bench) == 0
    assert in_archive(archive) == Counter((one.cohort, one.bits) for one in reports)
    output = tmp_path / "sum.json"
    assert main(["archive", "sum", str(archive), "kept", "-o", str(output)]) == 0
    assert output.read_text() == bench.collector.read_aggregate("test", "kept").to_json()
