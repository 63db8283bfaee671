"""The share of lines that ran, by package: python -m tests.coverage_by_package COVERAGE.json"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def table(report: Mapping[str, Any]) -> str:
    """A line for each package of a report of `coverage json`, and one for all of them.

    Args:
        report: the document, whose `files` have a `summary` each.

    Returns:
        Lines that ran, lines in all and their share in per cent, by the first folder of each file.
    """
    ran, lines = Counter[str](), Counter[str]()
    for name, file in report["files"].items():
        for package in (Path(name).parts[0], "all"):
            ran[package] += file["summary"]["covered_lines"]
            lines[package] += file["summary"]["num_statements"]
    rows = [f"{'package':<20}{'ran':>8}{'lines':>8}{'share':>8}"]
    for package in (*sorted(set(lines) - {"all"}), "all"):
        share = f"{100 * ran[package] / lines[package]:.0f} %" if lines[package] else "-"
        rows.append(f"{package:<20}{ran[package]:>8}{lines[package]:>8}{share:>8}")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
