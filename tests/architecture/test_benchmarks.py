"""The page of benchmarks is what its rows give, and a run becomes rows."""

from typing import Any

import pytest

from benchmarks.page import MAX_ROWS, PAGE, ROOT, Row, page_of, read_rows, rows_of


def test_the_page_is_what_the_rows_give() -> None:
    machine, rows = read_rows()
    assert page_of(machine, rows) == PAGE.read_text(encoding="utf-8")
    assert len(rows) <= MAX_ROWS
    assert all(row.state.startswith("at ") for row in rows)
    parts = {path.stem.removeprefix("bench_") for path in ROOT.glob("benchmarks/bench_*.py")}
    assert parts == {"encode", "record", "collect", "decode", "location", "flows"}
    assert {row.part for row in rows} <= parts


def test_a_page_of_too_many_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="61 rows are more than the 60"):
        page_of("", [Row("a", "b", "s", (1.0, 1.0, 1.0))] * 61)


def of_run(group: str, who: str, median: float, **info: Any) -> dict[str, Any]:
    return {
        "group": group,
        "fullname": "benchmarks/bench_record.py::bench_record[x]",
        "extra_info": {"who": who, **info},
        "stats": {"median": median, "min": median / 2, "max": 2 * median},
    }


def test_a_run_gives_a_row_for_each_rival() -> None:
    run = {
        "benchmarks": [
            of_run("g", "a rival", 4e-5, target=3.0),
            of_run("g", "ours", 1e-5),
            of_run("rate", "ours", 1, values=[8, 9, 10], unit="/s", more=True),
            of_run("rate", "slow", 1, values=[3, 2, 4], unit="/s", target=5.0),
            of_run("cuts", "ours", 1e-5, cuts={"p50": 1e-5, "p99": 2e-3}),
            of_run("alone", "ours", 1, values=[7], unit="kB", note="one wheel"),
        ]
    }
    times, rate, p50, p99, alone = rows_of(run, "at abc, 2026-11-29")
    assert (times.part, times.rival, times.ratio) == ("record", "a rival", pytest.approx(4))
    assert times.cells()[1] == "10.0 us (5.00 to 20.0)"
    assert times.cells()[3:5] == ["4.00", "3.00"]
    assert (rate.ratio, rate.cells()[4]) == (3.0, "5.00, missed")
    assert (p50.measured, p50.unit, p99.measured, p99.unit) == (
        "cuts, p50",
        "us",
        "cuts, p99",
        "ms",
    )
    assert alone.cells() == ["alone", "7.00 kB", "", "", "", "one wheel"]
