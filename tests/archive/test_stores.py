"""The same life of an archive in a folder, in memory and on S3; and who runs the sums."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from archive.errors import ArchiveDamagedError, ArchiveError
from archive.export import ELSEWHERE, MOVED, export
from archive.keys import IN_CLEAR, load_key, make_key
from archive.manifest import read_entries
from archive.pools import LocalPool, SerialPool
from archive.retention import expire
from archive.store import open_store
from archive.tasks import PartCounts, SpanTask, count_part
from tests.archive.killers import die, kill_once
from tests.archive.support import DAY, TODAY, FakeSource, expected, make_block, summed
from tests.archive.test_parts import move


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "archive")
    if request.param == "memory":
        return f"memory://{uuid.uuid4().hex}"
    found: str = request.getfixturevalue("s3_archive")
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_life_of_an_archive(url: str, tmp_path: Path) -> None:
    """Moved, summed, found damaged, contested, expired; encrypted, in any store."""
    key, key_file = make_key(tmp_path / "key"), str(tmp_path / "key")
    one, two = make_block(), make_block(day=DAY + timedelta(days=1))
    assert move(url, one, two, key=key) == [MOVED, MOVED]
    assert summed(url, key=load_key(tmp_path / "key"), key_file=key_file) == expected(one, two)

    store = open_store(url)
    entry = next(iter(read_entries(store, key)))
    with pytest.raises(FileExistsError):
        store.create(entry.name, b"{}")
    content = store.read(entry.file)
    store.replace(entry.file, content[:100])
    with pytest.raises(ArchiveDamagedError):
        summed(url, key=key, key_file=key_file)
    store.replace(entry.file, content)
    assert store.age(entry.file) is None or store.age(entry.file) > 0

    assert expire(store, key, DAY + timedelta(days=31)).parts == 1
    assert store.list("reports") == [list(read_entries(store, key))[1].file]
    with pytest.raises(FileNotFoundError):
        store.read(entry.file)
    store.delete(entry.file)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_of_two_exports_at_once_one_commits_on_any_store(url: str) -> None:
    block = make_block()

    class Second(FakeSource):
        def reports(self, block, cohort):  # type: ignore[no-untyped-def]
            if cohort == 0:
                assert move(url, block) == [MOVED]
            return super().reports(block, cohort)

    source = Second([block])
    outcomes = list(export(source, open_store(url), IN_CLEAR, TODAY))
    assert [one.what for one in outcomes] == [ELSEWHERE]
    assert len(open_store(url).list("reports")) == 1


def test_a_scheme_that_is_not_there_is_named() -> None:
    with pytest.raises(ArchiveError, match="nowhere://"):
        open_store("nowhere://bucket")


# Who runs the sums


class Twice:
    """Gives each result twice, as after a worker that was taken for dead."""

    def run(self, tasks):  # type: ignore[no-untyped-def]
        for pair in SerialPool(count_part).run(tasks):
            yield pair
            yield pair


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """An archive of five days."""
    archive = tmp_path / "archive"
    move(archive, *[make_block(day=DAY + timedelta(days=n)) for n in range(5)])
    return archive


def whole() -> object:
    return expected(*[make_block(day=DAY + timedelta(days=n)) for n in range(5)])


def test_a_task_that_was_done_twice_counts_once(days: Path) -> None:
    assert summed(days, executor=Twice()) == whole()


def test_a_task_that_gives_nothing_is_missed(days: Path) -> None:
    class Lost(SerialPool[SpanTask, PartCounts]):
        def run(self, tasks):  # type: ignore[no-untyped-def]
            return super().run(list(tasks)[1:])

    with pytest.raises(ArchiveDamagedError, match="1 of 5 tasks"):
        summed(days, executor=Lost(count_part))


def test_a_process_that_is_killed_changes_nothing(days: Path) -> None:
    (days.parent / "kill").touch()
    assert summed(days, executor=LocalPool(kill_once, 2)) == whole()
    assert not (days.parent / "kill").exists()


@pytest.mark.slow
def test_processes_that_always_die_are_an_error(days: Path) -> None:
    with pytest.raises(ArchiveError, match="4 times"):
        summed(days, executor=LocalPool(die, 1))


def test_damage_found_by_a_process_is_named(days: Path) -> None:
    next((days / "reports").rglob("*.parquet")).write_bytes(b"")
    with pytest.raises(ArchiveDamagedError, match=r"\.parquet"):
        summed(days, executor=LocalPool(count_part, 1))
