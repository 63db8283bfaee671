"""Publication of synthetic rows: read estimates, apply a release policy, and write the rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import with_config

from disclosure.errors import PolicyError, ReleaseError, TableError
from disclosure.files import LENIENT, naming, new_folder, read_json, write_csv
from disclosure.release import Release, read_source, write_release
from disclosure.release.earlier import check_chain, refuse_as_table, refuse_in_rows
from disclosure.release.files import Sign
from disclosure.release.policy import ReleasePolicy, check_days
from disclosure.release.sources import JOINT, mark_of
from disclosure.release.tables import PARTITION, InRows
from disclosure.rows.estimates import DecodedCells, slot_estimates
from disclosure.typing import Floats, Table
from rappor_core.errors import file_problem

COVARIANCE = "covariance.npy"
_AGAIN = "decode the pairs again with rappor decode -o"
FORMAT = "rappor-synthetic-rows"
VERSION = 1
DESCRIPTION = "synthesis.json"
ROWS_ARE = "rows are"  # begins "... never overwritten" in an error message
OF_DECODING = (
    "Rows drawn from decoded estimates. No row represents a person or a device, and the rows "
    "cost no epsilon beyond that of the reports.",
    "Each set was drawn from another table of shares, as likely as the estimates and their errors "
    "allow. Analyze each set alone and combine: mean of the estimates q, variance "
    "max((between - within), within * rows / reports) + between / sets. One set alone, or all "
    "joined, looks more certain than the reports are.",
    "Shares below about 3 standard errors are too large on average, since rows cannot be negative.",
)
OF_TABLE = (
    "Rows drawn from a histogram with noise. Neighboring tables differ by the presence of one "
    "row; epsilon bounds what these rows reveal about it.",
    "Intervals and tests that treat the rows as a sample are too certain: they ignore the noise.",
)


def read_estimates(folder: Path) -> DecodedCells:
    """Return the cells of a joint table, of all categories of a metric, or of places by slot.

    From a density of several windows the last is used. Raises ReleaseError for another kind of
    folder, a table that does not cover all values (as of strings), and unusable files."""
    if mark_of(folder) == JOINT:
        return _of_joint(folder)
    tables = read_source(folder)
    last = [item for item in tables if item.last_day == max(table.last_day for table in tables)]
    if any(PARTITION in dict(item.strata) for item in last):
        raise ReleaseError(f"{folder}: flows are published as tables, by rappor release build")
    for item in last:
        if not item.complete:
            raise ReleaseError(
                f"{folder}: {item.name} does not contain all values, so its rows would be "
                "incomplete; use a pair metric, a category metric, or a map of all cells"
            )
    if "slot" in dict(last[0].strata):
        with naming(folder):
            return slot_estimates(last)
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


@with_config(LENIENT)
@dataclass(frozen=True)
class _JointCell:
    first: str
    second: str
    estimate: float
    low: float


@with_config(LENIENT)
@dataclass(frozen=True)
class _Joint:
    """The relevant contents of a joint table's results.json."""

    of: tuple[str, ...]
    reports: int
    cells: tuple[_JointCell, ...]
    first_day: date | None = None
    last_day: date | None = None


def _of_joint(folder: Path) -> DecodedCells:
    try:
        joint = read_json(folder / "results.json", _Joint)
        low = np.array([cell.low for cell in joint.cells])
        covariance = _covariance(folder / COVARIANCE)
        with naming(folder):
            return DecodedCells(
                joint.of,
                tuple((cell.first, cell.second) for cell in joint.cells),
                np.array([cell.estimate for cell in joint.cells]),
                covariance,
                joint.reports,
                joint.first_day,
                joint.last_day,
                detected=low > 0,  # as shown on a joint table's page
                low=low,
            )
    except TableError as error:
        raise ReleaseError(f"{error}; {_AGAIN}") from None


def _covariance(path: Path) -> Floats:
    try:
        return np.asarray(np.load(path, allow_pickle=False), dtype=float)
    except OSError as error:
        raise TableError(f"{path}: {file_problem(error)}") from None
    except (TypeError, ValueError, EOFError):
        raise TableError(f"{path}: not an array of numbers") from None


def admit_estimates(estimates: DecodedCells, policy: ReleasePolicy, issued: date) -> DecodedCells:
    """Apply a release policy to estimates before rows are drawn.

    Days must be sealed. Slots with fewer than `min_reports` reports are dropped; then report counts
    are rounded down. Cells that a table of the same decoding does not show separately
    (`ReleasePolicy.stand_alone`) are pooled as `*`, at least two together. The rows show all other
    estimates: earlier releases and overlapping windows are not considered, so a decoding may be
    published either as a table or as rows, but not both.

    Args:
        estimates: Estimates with their days, and `detected` and `low` of each cell.
        policy: The policy of the release.
        issued: The day of issue, on which windows must be sealed.

    Returns:
        The estimates from which rows may be drawn.

    Raises:
        PolicyError: The days are not published or unknown, or there are too few reports.
        TableError: No cell may be shown separately, or it is unknown which are detected.
    """
    if estimates.first_day is None or estimates.last_day is None:
        raise PolicyError("the decoding has no dates, so it is unknown whether its days are sealed")
    name = " by ".join(estimates.columns)
    check_days(policy, name, estimates.first_day, estimates.last_day, issued)
    if estimates.columns[0] == "slot":
        policy.check_stratum(name, "slot")
    enough = [policy.has_enough(reports) for reports in estimates.reports_by_group]
    if not any(enough):
        reports = ", ".join(map(str, estimates.reports_by_group))
        raise PolicyError(f"{name}: {reports} reports, at least {policy.min_reports} needed")
    large = estimates.without_few(np.array(enough), policy.reports_rounding)
    if large.detected is None or large.low is None:
        raise TableError(f"{name}: the estimates do not say which cells are detected")
    alone = policy.stand_alone(large.detected, large.low)
    if not alone.any():
        raise TableError(
            f"{name}: no cell is detected with a lower end of {policy.min_low:g} or more"
        )
    return large.without_small(alone)


def release_of_rows(
    estimates: DecodedCells, policy: ReleasePolicy, issued: date, earlier: Sequence[Release] = ()
) -> Release:
    """Return the release that represents the rows, for their manifest and for later releases.

    Args:
        estimates: Estimates from `admit_estimates`, with their days.
        policy: The policy of the release.
        issued: The day of issue.
        earlier: Releases of the same owner, oldest first.

    Raises:
        ReleaseError: An earlier release has a table or rows of one of its metrics on one of its
            days, or an earlier release was built on a release that is not given.
    """
    if estimates.first_day is None or estimates.last_day is None:
        raise ReleaseError("the estimates have no dates")
    digests = check_chain(earlier)
    days = estimates.first_day, estimates.last_day
    rows = [InRows(metric, *days) for metric in estimates.metrics or estimates.columns]
    refuse_as_table(earlier, rows)
    for row in rows:
        refuse_in_rows(earlier, *row)
    return Release(policy, issued, (), digests, OF_DECODING, rows=tuple(rows))


def write_rows(
    sets: Sequence[Table],
    description: Mapping[str, Any],
    notes: Sequence[str],
    folder: Path,
    release: Release | None = None,
    sign: Sign | None = None,
    key_id: str = "",
) -> list[str]:
    """Write one CSV file per set, and synthesis.json, to a new folder; return the file names.

    Values that a spreadsheet would compute are prefixed with an apostrophe. With a release (from
    `release_of_rows`), its release.json and a manifest of all files are also written, and signed if
    `sign` is given, as in `write_release`. Raises ReleaseError if the folder exists or cannot be
    written."""
    if release is not None:
        write = partial(_write_files, sets, description, notes)
        return write_release(release, folder, sign, key_id, rows=write)
    with new_folder(folder, ROWS_ARE) as part:
        _write_files(sets, description, notes, part)
    return sorted(path.name for path in folder.iterdir())


def _write_files(
    sets: Sequence[Table], description: Mapping[str, Any], notes: Sequence[str], folder: Path
) -> None:
    digits = len(str(len(sets)))
    names = [f"rows-{number:0{digits}}.csv" for number in range(1, len(sets) + 1)]
    for name, candidate_set in zip(names, sets, strict=True):
        write_csv(
            folder / name, candidate_set, zip(*candidate_set.values(), strict=True), guarded=True
        )
    head = {"format": FORMAT, "version": VERSION, "files": names}
    text = json.dumps(head | dict(description) | {"notes": list(notes)}, indent=2)
    (folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
