"""What `metrics check` knows before collection: equations for cells, and the cohorts of a file."""

from datetime import date

import pytest

from metric_design.review import check_metrics
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import MAX_COHORTS
from rappor_core.risk import cohorts_affordable, linked_by_groups, public_groups
from tests.metric_texts import declaration

TODAY = date(2026, 1, 1)
AREA = {"grid": "square", "box": [42.0, -72.8, 42.5, -72.2], "levels": [0], "period": "month"}
SYMBOLS = """mode = "memo"
encoding = "symbol"
num_symbols = 2
num_cohorts = {cohorts}
epsilon_infinity = 1.22
epsilon_one = 1.0986
"""
FILTER = """mode = "memo"
num_bits = 32
num_cohorts = {cohorts}
mechanism = "l-osue"
epsilon_infinity = 1.0
epsilon_one = 0.75
max_memoized_values = 3
"""


def told(text: str, population: int | None) -> list[str]:
    found = check_metrics(parse_metrics("budget = 30\n" + text), today=TODAY, population=population)
    return [one.message for one in found]


def place(side: int, cohorts: int, keys: str = SYMBOLS, name: str = "a") -> str:
    table = declaration(name, "location", **AREA, rows=side, columns=side)
    return table + keys.format(cohorts=cohorts)


@pytest.mark.parametrize(
    ("population", "cohorts", "use"),
    [(20_000, 64, None), (100_000, 64, None), (1_000_000, 64, 512), (1_000_000, 512, None)],
)
def test_cohorts_grow_with_the_population(population: int, cohorts: int, use: int | None) -> None:
    found = [one for one in told(place(31, cohorts), population) if "more devices do not" in one]
    assert len(found) == (use is not None)
    if use:
        assert "64 cohorts of 2 symbols are 64 equations for 961 cells" in found[0]
        assert found[0].endswith(f"use num_cohorts = {use}")


def test_the_cohorts_of_a_file_are_one_fingerprint() -> None:
    two = place(8, 64) + place(8, 64, FILTER, "b")
    (said,) = [one for one in told(two, 10_000) if "the cohorts of 2 metrics" in one]
    assert all(one in said for one in ("4,096 groups", "37.4%", "use 2 cohorts or fewer"))
    assert not any("the cohorts of" in one for one in told(two, 1_000_000))
    assert not any("the cohorts of" in one for one in told(place(8, 64), 10_000))


def test_groups_are_counted_as_they_show() -> None:
    assert public_groups(parse_metrics(place(8, 64)).declared[0]) == 64
    once = place(8, 64, 'mode = "once"\nnum_bits = 32\nnum_cohorts = {cohorts}\nepsilon = 1.0\n')
    assert public_groups(parse_metrics(once).declared[0]) == 1
    assert linked_by_groups(1, 50) == 1 / 50
    assert linked_by_groups(64**4, 100_000) == pytest.approx(0.997, abs=5e-4)
    assert [cohorts_affordable(1_000, n) for n in (10, 5_000, 10**6)] == [1, 4, 512]
    assert cohorts_affordable(1_000, 64_000_000, 2) == 128  # 252.98, to a power of two
    assert cohorts_affordable(1_000, 10**9) == MAX_COHORTS  # more cannot be declared
