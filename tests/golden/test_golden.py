"""The decoder's tables of stored aggregates, as they were when they were stored.

A change that only moves code leaves them alone. A change that estimates otherwise writes them anew
(`python -m tests.golden.make`) and says so in its commit and in the changelog.
"""

import csv
import math
from pathlib import Path

import pytest

from tests.golden import make

FILES = sorted(path.relative_to(make.EXPECTED).as_posix() for path in make.EXPECTED.rglob("*.csv"))
SAME = 1e-6  # relative; and absolute below 1e-6, where iterations end


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    make.tables(folder)
    return folder


def rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def same(one: str, other: str) -> bool:
    """Equal as text, or as numbers of about six digits."""
    if one == other:
        return True
    try:
        return math.isclose(float(one), float(other), rel_tol=SAME, abs_tol=SAME)
    except ValueError:
        return False


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_a_stored_aggregate_gives_its_stored_table(made, name: str) -> None:
    expected, now = rows(make.EXPECTED / name), rows(made / name)
    assert now[0] == expected[0]
    assert len(now) == len(expected)
    for was, is_ in zip(expected[1:], now[1:], strict=True):
        differing = [
            (column, a, b)
            for column, a, b in zip(expected[0], was, is_, strict=True)
            if not same(a, b)
        ]
        assert not differing, f"{name}, row {was[0]}: {differing}"
