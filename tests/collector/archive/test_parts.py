"""Export and sums on stores of each kind, and what a damaged or crossed archive answers."""

import json
import random
import uuid
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from collector.archive import parquet
from collector.archive.export import (
    DUE,
    EARLIER,
    ELSEWHERE,
    INCOMPLETE,
    MOVED,
    OVERLAPS,
    SET_ASIDE,
    export,
)
from collector.archive.parts import read_entries, verify_part
from collector.archive.store import ArchiveDamagedError, NotArchivedError, open_store
from rappor_core.aggregate import Aggregate
from tests.collector.archive.support import (
    DAY,
    KEPT,
    TODAY,
    FakeBlock,
    FakeSource,
    expected,
    make_block,
    summed,
)
from tests.collector.support import make_metric
from tests.file_limits import files_of_at_most

NEXT = DAY + timedelta(days=1)


def move(url: object, *blocks: FakeBlock) -> list[str]:
    """Export blocks; what became of each."""
    source = FakeSource(list(blocks))
    return [one.what for one in export(source, open_store(str(url)), TODAY)]


def only_entry(url: object):  # type: ignore[no-untyped-def]
    (entry,) = read_entries(open_store(str(url)))
    return entry


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_what_is_summed_is_what_the_collector_counted(tmp_path: Path) -> None:
    one, two = make_block(), make_block(day=NEXT, last=NEXT + timedelta(days=2), count=33)
    source = FakeSource([one, two])
    store = open_store(str(tmp_path))
    assert [o.what for o in export(source, store, TODAY)] == [MOVED, MOVED]
    assert source.forgotten == [one, two]
    assert summed(tmp_path) == expected(one, two)
    assert summed(tmp_path, window=(None, DAY)) == expected(one)
    assert Aggregate.from_json(summed(tmp_path).to_json()) == expected(one, two)


def test_random_bytes_order_a_cohort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reversed marks reverse each cohort: nothing of the order in which they came is left."""
    order = parquet._shuffled_within(
        parquet.np.array([0, 0, 0, 2, 2], dtype="i4"),
        lambda size: b"".join(n.to_bytes(8, "little") for n in range(size // 8, 0, -1)),
    )
    assert order.tolist() == [2, 1, 0, 4, 3]


def test_an_archive_is_for_its_owner_alone(tmp_path: Path) -> None:
    move(tmp_path / "a", make_block())
    assert {path.stat().st_mode & 0o077 for path in files(tmp_path)} == {0}
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0


def test_an_incomplete_block_stays_where_it_is(tmp_path: Path) -> None:
    whole = make_block()
    lost = FakeBlock(KEPT, NEXT, NEXT, whole.rows)

    class Half(FakeBlock):
        num_raw = 3

    source = FakeSource([Half(KEPT, DAY, DAY, whole.rows), lost])
    outcomes = list(export(source, open_store(str(tmp_path)), TODAY))
    assert [one.what for one in outcomes] == [INCOMPLETE, MOVED]
    assert source.forgotten == [lost]


def test_reports_that_contradict_counters_stay(tmp_path: Path) -> None:
    class Changed(FakeSource):
        def reports(self, block: FakeBlock, cohort: int):  # type: ignore[no-untyped-def]
            for piece in super().reports(block, cohort):
                yield bytes([piece[0] ^ 1]) + piece[1:]

    source = Changed([make_block()])
    (outcome,) = export(source, open_store(str(tmp_path)), TODAY)
    assert outcome.what == SET_ASIDE
    assert "do not match the collector's counters; nothing was moved" in outcome.reason
    assert not source.forgotten
    assert files(tmp_path) == []


def test_a_full_disk_moves_all_next_time(tmp_path: Path) -> None:
    block = make_block(metric=make_metric("kept", keep_raw_days=30, num_bits=1024), count=2_000)
    with files_of_at_most(50_000), pytest.raises(OSError, match="large"):
        move(tmp_path, block)
    assert files(tmp_path) == []
    assert move(tmp_path, block) == [MOVED]
    assert summed(tmp_path) == expected(block)


def test_an_interrupted_deletion_is_finished_next_time(tmp_path: Path) -> None:
    class Killed(FakeSource):
        def forget(self, block: FakeBlock) -> int:
            raise KeyboardInterrupt

    block = make_block()
    store = open_store(str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        list(export(Killed([block]), store, TODAY))
    source = FakeSource([block])
    assert [one.what for one in export(source, store, TODAY)] == [EARLIER]
    assert source.forgotten == [block]
    assert summed(tmp_path) == expected(block)


def test_rows_outlive_a_damaged_part(tmp_path: Path) -> None:
    block = make_block()
    move(tmp_path, block)
    (tmp_path / only_entry(tmp_path).file).unlink()
    source = FakeSource([block])
    (outcome,) = export(source, open_store(str(tmp_path)), TODAY)
    assert outcome.what == SET_ASIDE
    assert "missing" in outcome.reason
    assert not source.forgotten


def test_other_reports_replace_no_block(tmp_path: Path) -> None:
    """After a restore of the database the same days may be sealed with other reports."""
    first = make_block(last=NEXT)
    assert move(tmp_path, first) == [MOVED]
    assert move(tmp_path, make_block(seed=4, last=NEXT)) == [OVERLAPS]
    assert move(tmp_path, make_block(day=NEXT)) == [OVERLAPS]
    assert summed(tmp_path) == expected(first)


def test_a_block_out_of_time_is_not_moved(tmp_path: Path) -> None:
    assert move(tmp_path, make_block(day=TODAY - timedelta(days=31))) == [DUE]
    assert move(tmp_path, make_block(day=TODAY - timedelta(days=30))) == [MOVED]


def test_a_misplaced_part_is_found(tmp_path: Path) -> None:
    """Yesterday's file cannot replace today's."""
    move(tmp_path, make_block(), make_block(day=NEXT))
    one, two = read_entries(open_store(str(tmp_path)))
    (tmp_path / two.file).write_bytes((tmp_path / one.file).read_bytes())
    with pytest.raises(ArchiveDamagedError, match="do not match the sums"):
        summed(tmp_path)
    with pytest.raises(ArchiveDamagedError, match="its bytes do not match"):
        verify_part(open_store(str(tmp_path)), two)


def test_no_changed_byte_of_a_file_is_summed(tmp_path: Path) -> None:
    """A hundred single bytes: damage, or the same sums (of a byte that holds no report)."""
    move(tmp_path, make_block())
    path = tmp_path / only_entry(tmp_path).file
    content, whole, rng = path.read_bytes(), expected(make_block()), random.Random(5)
    for _ in range(100):
        place = rng.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        with suppress(ArchiveDamagedError):
            assert summed(tmp_path) == whole
        with pytest.raises(ArchiveDamagedError):
            verify_part(open_store(str(tmp_path)), only_entry(tmp_path))


NO_ENTRIES = ["", "[]", "{}", '{"digest": 3}', "\x00"]
EDITED = [{"num_reports": 59}, {"first_day": "2026-11-17"}, {"definition": {}}, {"version": 3}]


@pytest.mark.parametrize("change", [*NO_ENTRIES, *EDITED, {"unknown": 1}])
def test_an_edited_entry_is_refused(tmp_path: Path, change: Any) -> None:
    move(tmp_path, make_block())
    (path,) = files(tmp_path / "entries")
    if isinstance(change, dict):
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        message = r"entries/metric=kept/.*2026-11-18\.json"
    else:
        path.write_text(change)
        message = "not an entry"
    with pytest.raises(ArchiveDamagedError, match=message):
        summed(tmp_path)


def test_only_deletions_at_an_end_go_unnoticed(tmp_path: Path) -> None:
    """Deletions by a lifecycle rule."""
    blocks = [make_block(day=DAY + timedelta(days=number)) for number in range(4)]
    move(tmp_path, *blocks)
    store = open_store(str(tmp_path))
    entries = list(read_entries(store))
    for entry in (entries[0], entries[3]):
        store.delete(entry.name)
        store.delete(entry.file)
    assert summed(tmp_path) == expected(*blocks[1:3])
    early = summed(tmp_path, window=(DAY, None))
    assert early.first_day == NEXT  # the answer says its days, as the collector's does
    with pytest.raises(NotArchivedError, match="2026-11-21 is not archived yet"):
        summed(tmp_path, window=(None, blocks[3].last_day))
    store.delete(entries[1].name)
    move(tmp_path, blocks[0], blocks[3])
    with pytest.raises(NotArchivedError, match="2026-11-19 to the day before 2026-11-20"):
        summed(tmp_path)


def test_windows_take_whole_blocks_or_none(tmp_path: Path) -> None:
    merged = make_block(day=NEXT, last=NEXT + timedelta(days=2))
    move(tmp_path, make_block(), merged)
    for window in ((NEXT + timedelta(days=1), None), (None, NEXT), (NEXT, NEXT)):
        with pytest.raises(NotArchivedError, match="includes all of them or none"):
            summed(tmp_path, window=window)
    later = NEXT + timedelta(days=3)
    early = DAY - timedelta(days=9), DAY - timedelta(days=8)
    for window in ((None, later), (later, later), early):
        with pytest.raises(NotArchivedError, match="the archive has 2026-11-18 to 2026-11-21"):
            summed(tmp_path, window=window)
    assert summed(tmp_path, window=(NEXT, merged.last_day)) == expected(merged)
    assert summed(tmp_path, window=(date(2026, 11, 16), DAY)) == expected(make_block())


def test_a_metric_whose_definition_changed(tmp_path: Path) -> None:
    """Other parameters are another version; other words are the same one, the latest counts."""
    wider = make_metric("kept", keep_raw_days=30, num_bits=32)
    described = make_metric("kept", keep_raw_days=30, description="in other words")
    one, two = make_block(), make_block(described, NEXT)
    move(tmp_path, one, two, make_block(wider))
    with pytest.raises(NotArchivedError, match="2 versions"):
        summed(tmp_path)
    assert summed(tmp_path, params_id=wider.params_id) == expected(make_block(wider))
    assert summed(tmp_path, params_id=KEPT.params_id) == expected(one, two)
    with pytest.raises(NotArchivedError, match="no params_id"):
        summed(tmp_path, params_id="0" * 32)


def test_row_groups_split_and_tasks_sum_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(parquet, "MAX_ROWS", 16)
    block = make_block(count=100)
    move(tmp_path, block)
    assert only_entry(tmp_path).rows_in_group == 16
    for reports in (1, 16, 50, 1000):
        assert summed(tmp_path, task_reports=reports) == expected(block)


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "archive")
    if request.param == "memory":
        return f"memory://{uuid.uuid4().hex}"
    found: str = request.getfixturevalue("s3_archive")
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_life_of_an_archive(url: str) -> None:
    """Moved, summed, found damaged, contested, deleted; in any store."""
    one, two = make_block(), make_block(day=DAY + timedelta(days=1))
    assert move(url, one, two) == [MOVED, MOVED]
    assert summed(url) == expected(one, two)

    store = open_store(url)
    entry, later = read_entries(store)
    with pytest.raises(FileExistsError):
        store.create(entry.name, b"{}")
    content = store.read(entry.file)
    store.delete(entry.file)
    with store.writing(entry.file) as file:
        file.write(content[:100])
    with pytest.raises(ArchiveDamagedError):
        summed(url)

    store.delete(entry.file)
    with pytest.raises(ArchiveDamagedError, match=r"missing.* a lifecycle rule"):
        summed(url)
    store.delete(entry.name)
    assert store.list("reports") == [later.file]
    with pytest.raises(FileNotFoundError):
        store.read(entry.file)
    store.delete(entry.file)
    assert summed(url) == expected(two)


@pytest.fixture
def days(tmp_path: Path) -> Path:
    archive = tmp_path / "archive"
    move(archive, *[make_block(day=DAY + timedelta(days=n)) for n in range(5)])
    return archive


def whole() -> object:
    return expected(*[make_block(day=DAY + timedelta(days=n)) for n in range(5)])


def test_processes_sum_as_one_does(days: Path) -> None:
    assert summed(days, on="local:2") == whole()


def test_damage_found_by_a_process_is_named(days: Path) -> None:
    next((days / "reports").rglob("*.parquet")).write_bytes(b"")
    with pytest.raises(ArchiveDamagedError, match=r"\.parquet"):
        summed(days, on="local:2")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_of_two_exports_one_commits(url: str) -> None:
    block = make_block()

    class Second(FakeSource):
        def reports(self, block, cohort):  # type: ignore[no-untyped-def]
            if cohort == 0:
                assert move(url, block) == [MOVED]
            return super().reports(block, cohort)

    source = Second([block])
    outcomes = list(export(source, open_store(url), TODAY))
    assert [one.what for one in outcomes] == [ELSEWHERE]
    assert len(open_store(url).list("reports")) == 1


def test_an_entry_under_another_name_is_refused(tmp_path: Path) -> None:
    move(tmp_path, make_block())
    (path,) = files(tmp_path / "entries")
    path.with_name("2026-11-19.json").write_bytes(path.read_bytes())
    with pytest.raises(ArchiveDamagedError, match="changed"):
        summed(tmp_path)
