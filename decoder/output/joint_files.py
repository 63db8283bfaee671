"""Files of a joint table: joint.csv, margins.csv, covariance.npy, results.json, report.html.

Nothing in them depends on the clock or the machine: the same input gives the same bytes.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from decoder.files import write_files
from decoder.output.joint_html import render_joint
from decoder.pairs.table import JointTable
from decoder.typing import Floats

CELL_COLUMNS = (
    "estimate", "std_error", "low", "high", "fitted", "shrunk",
    "of_first", "of_first_low", "of_first_high", "of_second", "of_second_low", "of_second_high",
)  # fmt: skip
MARGIN_COLUMNS = ("side", "value", "estimate", "std_error", "low", "high")


def write_joint(table: JointTable, directory: str | Path) -> tuple[Path, ...]:
    """Write all files into a directory, made if needed; returns their paths. Raises OutputError."""
    text = json.dumps(joint_content(table), indent=2, allow_nan=False) + "\n"
    files: dict[str, Callable[[Path], object]] = {
        "joint.csv": partial(_write, (*table.of, *CELL_COLUMNS), cell_rows(table)),
        "margins.csv": partial(_write, MARGIN_COLUMNS, margin_rows(table)),
        "results.json": lambda path: path.write_text(text, encoding="utf-8"),
        "report.html": lambda path: path.write_text(render_joint(table), encoding="utf-8"),
    }
    covariance = table.covariance
    if covariance is not None:
        files["covariance.npy"] = partial(_write_array, covariance)
    return write_files(directory, files)


def joint_content(table: JointTable) -> dict[str, Any]:
    """The contents of results.json for a joint table, as plain values (unknown as null)."""
    test = table.independence
    return {
        "metric": table.metric,
        "of": list(table.of),
        "reports": table.num_reports,
        "first_day": table.first_day and table.first_day.isoformat(),
        "last_day": table.last_day and table.last_day.isoformat(),
        "level": table.level,
        "independence": {
            "statistic": test.statistic,
            "degrees_of_freedom": test.freedom,
            "p_value": test.p_value,
            "alpha": test.level,
            "refuted": test.rejected,
        },
        "cells": [
            dict(zip(("first", "second", *CELL_COLUMNS), row, strict=True))
            for row in cell_rows(table)
        ],
        "margins": [dict(zip(MARGIN_COLUMNS, row, strict=True)) for row in margin_rows(table)],
        "warnings": list(table.warnings),
    }


def cell_rows(table: JointTable) -> list[tuple[object, ...]]:
    """A row for each cell, the second side running fastest: labels, then `CELL_COLUMNS`."""
    parts: list[Floats | None] = [*table.cells, table.fitted, table.shrunk]
    for given in (table.conditional(0), table.conditional(1)):
        parts += [None] * 3 if given is None else [given.estimate, given.low, given.high]
    return [
        (row, column, *(None if part is None else _plain(part[i, j]) for part in parts))
        for i, row in enumerate(table.rows)
        for j, column in enumerate(table.columns)
    ]


def margin_rows(table: JointTable) -> list[tuple[object, ...]]:
    """A row for each value of each side."""
    rows: list[tuple[object, ...]] = []
    for side, values in enumerate((table.rows, table.columns)):
        margin = table.margin(side)
        if margin is not None:
            rows += [
                (table.of[side], value, *(_plain(part[i]) for part in margin))
                for i, value in enumerate(values)
            ]
    return rows


def _write_array(values: Floats, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, values, allow_pickle=False)


def _plain(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _write(header: Sequence[str], rows: Iterable[Sequence[object]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
