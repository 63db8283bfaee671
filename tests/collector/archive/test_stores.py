"""The same life of an archive in a folder, in memory and on S3; and who runs the sums."""

import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from collector.archive.export import ELSEWHERE, MOVED, export
from collector.archive.parts import read_entries
from collector.archive.store import ArchiveDamagedError, open_store
from rappor_cli.task_pools import PoolError
from tests.collector.archive.killers import die
from tests.collector.archive.support import DAY, TODAY, FakeSource, expected, make_block, summed
from tests.collector.archive.test_parts import move


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


# Who runs the sums


@pytest.fixture
def days(tmp_path: Path) -> Path:
    archive = tmp_path / "archive"
    move(archive, *[make_block(day=DAY + timedelta(days=n)) for n in range(5)])
    return archive


def whole() -> object:
    return expected(*[make_block(day=DAY + timedelta(days=n)) for n in range(5)])


def test_processes_sum_as_one_does(days: Path) -> None:
    assert summed(days, workers=2) == whole()


def test_a_process_that_is_killed_is_an_error(days: Path) -> None:
    with pytest.raises(PoolError, match="was killed"):
        summed(days, work=die, workers=2)


def test_damage_found_by_a_process_is_named(days: Path) -> None:
    next((days / "reports").rglob("*.parquet")).write_bytes(b"")
    with pytest.raises(ArchiveDamagedError, match=r"\.parquet"):
        summed(days, workers=2)


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
