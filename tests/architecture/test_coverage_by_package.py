"""The table that `make coverage` prints after its tests."""

from __future__ import annotations

from tests.coverage_by_package import table


def test_files_are_summed_by_package() -> None:
    def file(ran: int, lines: int) -> dict[str, dict[str, int]]:
        return {"summary": {"covered_lines": ran, "num_statements": lines}}

    report = {
        "files": {
            "archive/a.py": file(1, 4),
            "archive/b/c.py": file(2, 2),
            "decoder/d.py": file(0, 0),
        }
    }
    assert [line.split() for line in table(report).splitlines()] == [
        ["package", "ran", "lines", "share"],
        ["archive", "3", "6", "50", "%"],
        ["decoder", "0", "0", "-"],
        ["all", "3", "6", "50", "%"],
    ]
