"""Estimates from the folders of `rappor decode -o` (pairs, categories) and `rappor density -o`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from disclosure_control.errors import ReleaseError
from disclosure_control.synthetic_rows.estimates import DecodedCells, SlotMap, slot_estimates
from publication.release import CellTable, read_source
from publication.release.sources import JOINT, mark_of
from publication.release.tables import PARTITION
from rappor_core.errors import RapporError, file_problem
from rappor_core.failures import failure_reason
from rappor_core.strict_json import parse_strict_json

COVARIANCE = "covariance.npy"


def read_estimates(folder: Path) -> DecodedCells:
    """The cells of a joint table, of all categories of one metric, or of all places by slot.

    Of a density of several windows the last is taken.

    Raises:
        ReleaseError: a folder of another kind; a table that does not hold all values, as one of
            strings; files that cannot be used.
    """
    if mark_of(folder) == JOINT:
        return _of_joint(folder)
    tables = read_source(folder)
    last = [one for one in tables if one.last_day == max(table.last_day for table in tables)]
    if any(PARTITION in dict(one.strata) for one in last):
        raise ReleaseError(f"{folder}: flows are published as tables, by rappor release build")
    for one in last:
        if not one.complete:
            raise ReleaseError(
                f"{folder}: {one.name} does not hold all values, so that rows of it would be of "
                "some only; take a pair metric, a category metric, or a map of all cells"
            )
    if "slot" in dict(last[0].strata):
        return _of_slots(last, folder)
    (table,) = last
    estimate = table.estimate if table.unbiased is None else table.unbiased
    return DecodedCells(
        (table.metric,),
        tuple((cell,) for cell in table.cells),
        estimate,
        table.std_error**2,
        table.num_reports,
        table.first_day,
        table.last_day,
        detected=table.detected,
        low=table.low,
    )


def _of_slots(tables: Sequence[CellTable], folder: Path) -> DecodedCells:
    first = {table.first_day for table in tables}
    if len(first) > 1:
        raise ReleaseError(f"{folder}: the slots are of windows that begin on other days")
    maps = [
        SlotMap(
            dict(one.strata)["slot"],
            one.cells,
            one.estimate,
            one.std_error,
            one.num_reports,
            one.detected,
            one.low,
        )
        for one in tables
    ]
    found = slot_estimates(maps, first.pop(), tables[0].last_day)
    return replace(found, metrics=tuple(dict.fromkeys(table.metric for table in tables)))


def _of_joint(folder: Path) -> DecodedCells:
    try:
        found = parse_strict_json((folder / "results.json").read_bytes())
        covariance = np.load(folder / COVARIANCE, allow_pickle=False)
        cells = tuple((str(one["first"]), str(one["second"])) for one in found["cells"])
        first, second = found["of"]
        low = np.array([float(one["low"]) for one in found["cells"]])
        return DecodedCells(
            (str(first), str(second)),
            cells,
            np.array([float(one["estimate"]) for one in found["cells"]]),
            np.asarray(covariance, dtype=float),
            int(found["reports"]),
            _day(found, "first_day"),
            _day(found, "last_day"),
            detected=low > 0,  # as the page of a joint table tells it
            low=low,
        )
    except FileNotFoundError as error:
        raise ReleaseError(
            f"{folder}: {Path(str(error.filename)).name} is missing; decode the pairs again with "
            "rappor decode -o"
        ) from None
    except OSError as error:
        raise ReleaseError(f"{folder}: {file_problem(error)}") from None
    except RapporError as error:
        raise ReleaseError(f"{folder}: a file of it cannot be used: {error}") from None
    except (KeyError, TypeError, ValueError, OverflowError, EOFError) as error:
        reason = failure_reason(error)
        raise ReleaseError(f"{folder}: a file of it cannot be used: {reason}") from None


def _day(found: Mapping[str, Any], name: str) -> date | None:
    return date.fromisoformat(found[name]) if found[name] else None
