"""Linked raw reports: moved once, summed as the collector sums them, deleted in time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from archive import export as moving
from archive import layouts
from archive.errors import ArchiveDamagedError, ArchiveError
from archive.google_reports import write_csv
from archive.keys import IN_CLEAR
from archive.layouts import LinkedLayout, layout_of, sum_rows
from archive.manifest import read_entries
from archive.store import open_store
from archive.tasks import add_rows, no_counts
from collector.domain.co_occurrences import BitPairs
from collector.domain.raw_blocks import RawBlocks
from rappor_cli.main import main
from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.wire.linked import Pair, linked_cohort
from tests.archive.support import bit_sums, stored_rows
from tests.archive.test_collector import KILLS, kill_exports
from tests.collector.support import Bench, make_bench
from tests.collector.test_associations import NAME, pairs_of, pushed, submit

KEPT = {'of = ["homepage", "engine"]': 'of = ["homepage", "engine"]\nkeep_raw_days = 30'}


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    """A collector whose clock is the real one, as the command's is."""
    made = make_bench(database_url)
    made.clock.now = datetime.now(UTC)
    yield made
    made.database.close()


def fill(bench: Bench, sizes: list[int]) -> list[Pair]:
    """So many linked reports of the last days, the days closed."""
    file, today = pushed(bench, **KEPT), bench.clock.now.date()
    pairs = []
    for number, size in enumerate(sizes):
        day = today - timedelta(days=len(sizes) - 1 - number)
        some = pairs_of(file, size, day, seed=number)
        for start in range(0, size, 100):
            submit(bench, some[start : start + 100])
        pairs += some
    bench.collector.close_day(today, "test")
    return pairs


def rows_of(folder: Path) -> Counter[tuple[int, bytes]]:
    store = open_store(str(folder))
    return Counter(
        row for entry in read_entries(store, IN_CLEAR) for row in stored_rows(store, entry.file)
    )


def test_linked_reports_move_once_and_sum(bench: Bench, database_url: str, tmp_path: Path) -> None:
    pairs = fill(bench, [200, 300])
    archive, output = tmp_path / "archive", tmp_path / "sum.json"
    where = ["archive", "export", str(archive), "--database", database_url]
    assert main([*where, "--unencrypted"]) == 0
    sent = Counter((linked_cohort(pair), pair[0].bits + pair[1].bits) for pair in pairs)
    assert rows_of(archive) == sent
    assert list(RawBlocks(bench.database, NAME).blocks()) == []
    assert main([*where, "--unencrypted", "--metric", NAME]) == 0  # there is nothing left to move
    assert rows_of(archive) == sent
    words = ["archive", "aggregate", str(archive), NAME]
    for more in ([], ["--workers", "1"]):
        assert main([*words, "-o", str(output), *more]) == 0
        wanted = bench.collector.read_association("test", NAME)
        assert output.read_text() == wanted.to_json()
        assert AssociationAggregate.from_json(output.read_text()) == wanted
    assert main([*words, "--cohorts", "0-1"]) == 1
    assert main(["archive", "verify", str(archive)]) == 0
    tomorrow = str(bench.clock.now.date() + timedelta(days=1))
    expire = ["archive", "expire", str(archive), "--metric", NAME, "--before", tomorrow]
    assert main(expire) == 0
    assert main(words) == 1
    assert not list((archive / "reports").rglob("*.parquet"))


def test_a_kill_after_commit_moves_nothing_twice(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = fill(bench, [250])
    store, today = open_store(str(tmp_path / "archive")), bench.clock.now.date()
    source = RawBlocks(bench.database)
    with monkeypatch.context() as patch:
        patch.setattr(RawBlocks, "forget", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            list(moving.export(source, store, IN_CLEAR, today))
    assert [one.what for one in moving.export(source, store, IN_CLEAR, today)] == [moving.EARLIER]
    assert sum(rows_of(tmp_path / "archive").values()) == len(pairs)
    assert list(source.blocks()) == []


@pytest.mark.long
def test_linked_exports_killed_move_each_once(
    bench: Bench, database_url: str, tmp_path: Path
) -> None:
    """As for metrics: 2 kills here; RAPPOR_KILLS=200 for the long form."""
    pairs, archive = fill(bench, [600] * (3 if KILLS < 20 else 20)), tmp_path / "archive"
    print(f"{kill_exports(bench, database_url, archive)} kills, {len(pairs)} linked reports")
    assert list(RawBlocks(bench.database).blocks()) == []
    assert rows_of(archive) == Counter((linked_cohort(one), one[0].bits + one[1].bits)
                                       for one in pairs)  # fmt: skip
    output = tmp_path / "sum.json"
    assert main(["archive", "aggregate", str(archive), NAME, "-o", str(output)]) == 0
    assert output.read_text() == bench.collector.read_association("test", NAME).to_json()


def test_a_lost_row_shows_in_the_pairs(bench: Bench, tmp_path: Path) -> None:
    """Two rows whose second halves are exchanged have every bit's count, and other pairs."""
    fill(bench, [250])
    source, today = RawBlocks(bench.database), bench.clock.now.date()
    reports = source.reports
    width = next(iter(source.blocks())).metric.first.params.report_bytes  # type: ignore[union-attr]

    def exchanged(block: object, cohort: int) -> Iterator[bytes]:
        for piece in reports(block, cohort):  # type: ignore[arg-type]
            rows = np.frombuffer(piece, np.uint8).reshape(-1, width + 2).copy()
            rows[:, width:] = np.roll(rows[:, width:], 1, axis=0)
            yield rows.tobytes()

    source.reports = exchanged  # type: ignore[method-assign,assignment]
    (outcome,) = moving.export(source, open_store(str(tmp_path / "archive")), IN_CLEAR, today)
    assert outcome.what == moving.SET_ASIDE
    assert "do not give the collector's counters" in outcome.reason


@pytest.mark.parametrize("shape", [(1, 1), (16, 12), (7, 64), (33, 9)])
def test_counts_are_those_of_the_collectors_pairs(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "_MOST_CELLS", 900)  # several products
    rng, pairs = random.Random(3), BitPairs(shape)
    sides = [
        [rng.getrandbits(k).to_bytes((k + 7) // 8, "little") for _ in range(200)] for k in shape
    ]
    rows = np.frombuffer(b"".join(a + b for a, b in zip(*sides, strict=True)), np.uint8)
    layout = LinkedLayout(3, shape)
    wanted = bit_sums([pairs.of(a, b) for a, b in zip(*sides, strict=True)], pairs.num_bits)
    rows = rows.reshape(200, layout.report_bytes)
    assert sum_rows(rows, layout.num_bits, shape).tolist() == wanted
    assert layout_of(layout.to_dict()) == layout
    with pytest.raises(ArchiveDamagedError, match="bytes"):
        add_rows(no_counts(3, layout.num_bits), np.zeros(200, np.int32), rows[:, 1:], shape)


def test_linked_reports_are_no_lines_of_one_metric(bench: Bench, tmp_path: Path) -> None:
    fill(bench, [250])
    store, today = open_store(str(tmp_path / "archive")), bench.clock.now.date()
    list(moving.export(RawBlocks(bench.database), store, IN_CLEAR, today))
    with (tmp_path / "out.csv").open("w") as text, pytest.raises(ArchiveError, match="no form"):
        list(write_csv(text, read_entries(store, IN_CLEAR), store, IN_CLEAR))
