"""Read releases for an audit: as `write_release` writes them, or a CSV file of another
publisher."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from disclosure.errors import ReleaseError
from disclosure.release.build import Release
from disclosure.release.files import MANIFEST
from disclosure.release.policy import ReleasePolicy
from disclosure.release.tables import ReleasedTable, TableKey, stratum_key
from disclosure.release.verification import read_release
from rappor_core.errors import file_problem, shown

_STRATUM = "stratum_"
_NUMBERS = ("estimate", "std_error", "low", "high")


def read_published(
    folder: Path, policy: ReleasePolicy | None = None, *, complete: bool = False
) -> Release:
    """Read a release for an audit; its digests are checked if it has a manifest.

    Args:
        folder: of a release, or with a file release.csv with these columns of one: metric, any of
            stratum_NAME, first_day, last_day, reports, value, estimate, and if there are any kind,
            low, high and symbol. A row without an estimate is one that is not shown, a table
            without reports one that is withheld.
        policy: what the publisher promises; None: what release.json says.
        complete: whether the rows of a table in CSV hold everybody.

    Raises:
        ReleaseError: it cannot be read; a CSV file without a policy.
        VerificationError: a file is not as its manifest says.
    """
    if (folder / MANIFEST).is_file():
        found = read_release(folder)
        return found if policy is None else replace(found, policy=policy)
    if policy is None:
        raise ReleaseError(
            f"{folder} has no {MANIFEST}: say what its publisher promises (--policy release.toml)"
        )
    path = folder / "release.csv"
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(csv.DictReader(lines, strict=True))
        return Release(policy, date.min, tuple(_tables(rows, complete=complete)))
    except OSError as error:
        raise ReleaseError(f"{path}: {file_problem(error)}") from None
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ReleaseError(f"{path} cannot be used: {shown(error)}") from None


def _tables(rows: Sequence[Mapping[str, str]], *, complete: bool) -> list[ReleasedTable]:
    by_table: dict[TableKey, list[Mapping[str, str]]] = {}
    for row in rows:
        strata = {
            name.removeprefix(_STRATUM): value
            for name, value in row.items()
            if name.startswith(_STRATUM) and value
        }
        days = date.fromisoformat(row["first_day"]), date.fromisoformat(row["last_day"])
        by_table.setdefault((row["metric"], stratum_key(strata), *days), []).append(row)
    return [_table(key, several, complete=complete) for key, several in by_table.items()]


def _table(key: TableKey, rows: Sequence[Mapping[str, str]], *, complete: bool) -> ReleasedTable:
    reports = rows[0]["reports"]
    held = rows if reports else []
    columns: dict[str, Any] = {
        name: np.array([float(row.get(name) or "nan") for row in held]) for name in _NUMBERS
    }
    hidden = np.isnan(columns["estimate"])
    kinds = tuple(row.get("kind") or "cell" for row in held)
    cells = tuple(row["value"] for row in held)
    pools = {cell: 0 for cell, kind in zip(cells, kinds, strict=True) if kind == "merged"}
    return ReleasedTable(
        *key,
        int(reports) if reports else None,
        float(rows[0].get("level") or 0.95),
        cells,
        kinds,
        symbols=tuple(
            (row.get("symbol") or "u") if one else ""
            for row, one in zip(held, hidden.tolist(), strict=True)
        ),
        complete=complete and bool(held),
        withheld="" if reports else rows[0].get("symbol") or "c",
        held=pools,
        **columns,
    )
