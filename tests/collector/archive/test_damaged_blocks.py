"""Rows of closed days that are not what was written: their block alone stops, and it is said."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from collector import chores
from collector.domain.raw_blocks import find_damaged
from collector.errors import DamagedBlocksError
from rappor_cli.main import main
from rappor_server.logs import make_log
from tests.collector.support import Bench, Clock, make_bench, make_metric

KEPT = make_metric("kept", keep_raw_days=30)
OTHER = make_metric("other", keep_raw_days=30)
SIZES = (60, 70, 80)  # of three days of KEPT, each a block; OTHER has one day


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, datetime]:
    """A database with closed days, made once and copied for each test; the time of its clock."""
    folder = tmp_path_factory.mktemp("whole")
    made = make_bench(f"sqlite:///{folder}/c.sqlite")
    made.clock.now = datetime.now(UTC)
    made.collector.push_metrics([KEPT, OTHER], "test")
    today = made.clock.now.date()
    for before, size in zip((3, 2, 1), SIZES, strict=True):
        made.send(made.sender.reports(KEPT, size, today - timedelta(days=before)))
    made.send(made.sender.reports(OTHER, 90, today - timedelta(days=1)))
    made.collector.close_day(today - timedelta(days=1), "test")
    made.database.close()
    return folder / "c.sqlite", made.clock.now


@pytest.fixture
def bench(whole: tuple[Path, datetime], tmp_path: Path) -> Iterator[Bench]:
    file, now = whole
    shutil.copy(file, tmp_path / "c.sqlite")
    made = make_bench(f"sqlite:///{tmp_path}/c.sqlite", Clock(now))
    yield made
    made.database.close()


def change(folder: Path, statement: str, place: int = 1) -> None:
    """Damage the row of a block: 0 to 2 are those of KEPT, 3 is that of OTHER."""
    with sqlite3.connect(folder / "c.sqlite") as connection:
        (row,) = connection.execute(
            "SELECT id FROM blocks ORDER BY series_id, first_day LIMIT 1 OFFSET ?", [place]
        ).fetchone()
        connection.execute(f"UPDATE blocks SET {statement} WHERE id = {row}")
    connection.close()


def exported(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[list[object]]]:
    """The command's exit code, and what became of each block: days as numbers, reports, what."""
    url = f"sqlite:///{folder}/c.sqlite"
    command = ["archive", "export", str(folder / "archive"), "--database", url]
    capsys.readouterr()
    code = main([*command, "--json"])
    blocks = json.loads(capsys.readouterr().out or '{"blocks": []}')["blocks"]
    assert all(bool(one["reason"]) is (one["what"] == "set aside") for one in blocks)
    return code, [[one["reports"], one["what"]] for one in blocks]


DAMAGE = [
    "first_day = 'text'",
    "last_day = 'text'",
    "first_day = 20000.5",
    "first_day = -5",
    "first_day = 1000000000",
    "last_day = first_day - 1",
    "first_day = first_day + 400, last_day = last_day + 400",
    "last_day = last_day + 1",
    "num_reports = 'text'",
    "num_reports = num_reports + 1",
    "sealed = 0",
    "sealed = 7",
]


@pytest.mark.parametrize(
    ("statement", "place"),
    [*((one, number % 2) for number, one in enumerate(DAMAGE)), (DAMAGE[0], 2), (DAMAGE[8], 2)],
)
def test_a_damaged_row_is_set_aside(bench, tmp_path, capsys, statement, place) -> None:
    """Whatever is in the row, wherever it is, one block is left and three are moved."""
    change(tmp_path, statement, place)
    code, blocks = exported(tmp_path, capsys)
    assert code == 1
    moved = sorted([*SIZES[:place], *SIZES[place + 1 :], 90])
    assert sorted(size for size, what in blocks if what == "moved") == moved
    assert [what for _, what in blocks if what != "moved"] == ["set aside"]


RAW = "raw_reports", "series_id, day, cohort, mark"
COUNTS = "block_counts", "block_id, cohort"


@pytest.mark.parametrize(
    ("table", "change"),
    [
        (RAW, "bits = 'text'"),
        (RAW, "bits = 999999999999999"),
        (RAW, "mark = 'text'"),
        (RAW, "cohort = 9999"),
        (COUNTS, "counts = x'00'"),
        (COUNTS, "counts = 'text'"),
        (COUNTS, "num_reports = 'text'"),
        (COUNTS, "num_reports = -5"),
    ],
)
def test_an_unreadable_block_stops_itself_alone(bench, tmp_path, capsys, table, change) -> None:
    """A value of another kind, which SQLite takes, of a report or of a counter."""
    name, key = table
    with sqlite3.connect(tmp_path / "c.sqlite") as connection:
        first = f"SELECT {key} FROM {name} ORDER BY {key} LIMIT 1"
        connection.execute(f"UPDATE {name} SET {change} WHERE ({key}) = ({first})")
    connection.close()
    code, blocks = exported(tmp_path, capsys)
    assert (code, sorted(what for _, what in blocks)) == (1, [*["moved"] * 3, "set aside"])


@pytest.mark.parametrize("statement", DAMAGE[:6:2])  # a text, a broken number, a far day
def test_a_damaged_series_alone_is_not_served(bench: Bench, tmp_path: Path, statement: str) -> None:
    """Its open days close and wait; those of others are served; lists continue."""
    today = bench.clock.now.date()
    change(tmp_path, statement)
    for metric in (KEPT, OTHER):
        bench.send(bench.sender.reports(metric, 65, today))
    bench.collector.close_day(today, "test")
    with pytest.raises(DamagedBlocksError, match="restore a backup"):
        bench.collector.read_aggregate("test", "kept")
    assert bench.collector.read_aggregate("test", "other").num_reports == 90 + 65
    assert {one["name"] for one in bench.collector.list_metrics()} == {"kept", "other"}
    with bench.database.read() as connection:
        found = find_damaged(connection, bench.collector.registry())
    assert [entry.metric.name for entry, _ in found] == ["kept"]


def test_days_are_closed_again_after_a_defect(bench, monkeypatch) -> None:
    """A chore that raised anything once was never done again."""
    calls: list[int] = []

    def fail(_: object) -> None:
        calls.append(1)
        raise TypeError("a defect")

    monkeypatch.setattr(chores, "do_chores", fail)
    said = StringIO()
    settings = SimpleNamespace(housekeeping_seconds=0.001)
    parts = SimpleNamespace(settings=settings, collector=bench.collector, relay_keys=None)

    async def keep_for_a_while() -> None:
        task = asyncio.create_task(chores.run_maintenance(parts, make_log("info", said)))  # type: ignore[arg-type]
        while len(calls) < 3:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(asyncio.wait_for(keep_for_a_while(), 10))
    assert '"kind": "TypeError"' in said.getvalue()


def test_a_row_of_no_series_is_told(bench, tmp_path, capsys) -> None:
    change(tmp_path, "series_id = 'text'", 0)
    url = f"sqlite:///{tmp_path}/c.sqlite"
    command = ["archive", "export", str(tmp_path / "archive"), "--database", url]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert said.count("reports moved") == 3
    assert "1 row of no series; restore a backup" in said


def test_counters_that_are_none_stop_their_own_series(bench: Bench, tmp_path: Path) -> None:
    """In an open block, the day that closes is not folded into it, and those of others are."""
    today = bench.clock.now.date()
    with sqlite3.connect(tmp_path / "c.sqlite") as connection:
        connection.execute("UPDATE blocks SET sealed = 0 WHERE num_reports = 80")
        connection.execute(
            "UPDATE block_counts SET counts = 'text' WHERE block_id IN"
            " (SELECT id FROM blocks WHERE num_reports = 80)"
        )
    connection.close()
    for metric in (KEPT, OTHER):
        bench.send(bench.sender.reports(metric, 65, today))
    bench.collector.close_day(today, "test")
    assert bench.collector.read_aggregate("test", "kept").num_reports == 60 + 70
    assert bench.collector.read_aggregate("test", "other").num_reports == 90 + 65
