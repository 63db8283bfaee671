"""Estimates from the folders of `rappor decode -o` (pairs, categories) and `rappor density -o`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from disclosure.errors import ReleaseError, TableError
from disclosure.release import CellTable, read_source
from disclosure.release.reading import DamagedFileError, read_json
from disclosure.release.sources import JOINT, mark_of
from disclosure.release.tables import PARTITION
from disclosure.rows.estimates import DecodedCells, SlotMap, slot_estimates
from disclosure.typing import Floats
from rappor_core.errors import file_problem

COVARIANCE = "covariance.npy"
_AGAIN = "decode the pairs again with rappor decode -o"


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
        found = read_json(folder / "results.json")
        rows = found.items("cells")
        low = np.array([one.number("low") for one in rows])
        return DecodedCells(
            tuple(one.text() for one in found.items("of")),
            tuple((one.text("first"), one.text("second")) for one in rows),
            np.array([one.number("estimate") for one in rows]),
            _covariance(folder / COVARIANCE),
            found.count("reports"),
            found.day("first_day"),
            found.day("last_day"),
            detected=low > 0,  # as the page of a joint table tells it
            low=low,
        )
    except DamagedFileError as error:
        raise ReleaseError(f"{error}; {_AGAIN}") from None
    except TableError as error:
        raise ReleaseError(f"{folder}: {error}; {_AGAIN}") from None


def _covariance(path: Path) -> Floats:
    try:
        return np.asarray(np.load(path, allow_pickle=False), dtype=float)
    except OSError as error:
        raise DamagedFileError(f"{path}: {file_problem(error)}") from None
    except (TypeError, ValueError, EOFError):
        raise DamagedFileError(f"{path}: it is no array of numbers") from None
