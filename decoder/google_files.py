"""google/rappor's files, read and written as they are, so that its users can move over.

Their params.csv, counts.csv, map.csv and metrics.json (the analysis tools of 2017); results.csv
is in `outputs`, with their seven columns first.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decoder.bit_tensor import mark_repeated, position_type
from decoder.candidates import Candidates
from decoder.errors import CountsError
from decoder.results import Decoding
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown
from rappor_core.hashing import normalise
from rappor_core.params import HashFamily, RapporParams

_PARAMS_HEADER = ["k", "h", "m", "p", "q", "f"]


def read_params(path: Path, hash_family: HashFamily = "md5") -> RapporParams:
    """params.csv: header `k,h,m,p,q,f`, one row. Raises CountsError with what is wrong."""
    rows = [row for row in _rows(path) if row]
    if len(rows) != 2 or [name.strip().strip('"') for name in rows[0]] != _PARAMS_HEADER:
        raise CountsError(f"{path.name}: expected the header {','.join(_PARAMS_HEADER)} and a row")
    try:
        num_bits, num_hashes, num_cohorts = (int(cell) for cell in rows[1][:3])
        prob_p, prob_q, prob_f = (float(cell) for cell in rows[1][3:])
    except ValueError as error:
        raise CountsError(f"{path.name}: {error}") from error
    return RapporParams.rappor(
        num_bits=num_bits,
        num_hashes=num_hashes,
        num_cohorts=num_cohorts,
        prob_f=prob_f,
        prob_p=prob_p,
        prob_q=prob_q,
        hash=hash_family,
    )


def read_counts(path: Path, params: RapporParams, metric: str = "google-rappor") -> Aggregate:
    """counts.csv: m rows of the total and k bit counts, bit 0 first, no header, no cohort."""
    try:
        rows = [[int(cell) for cell in row] for row in _rows(path) if row]
    except ValueError as error:
        raise CountsError(f"{path.name}: {error}; counts are whole numbers") from error
    shape = (params.num_cohorts, params.num_bits + 1)
    if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
        widths = sorted({len(row) for row in rows})
        raise CountsError(
            f"{path.name} has {len(rows)} rows of {widths} cells; the parameters say {shape[0]} "
            f"cohorts of 1 + {params.num_bits} (total, then the count of each bit)"
        )
    return Aggregate(
        metric, params, tuple(row[0] for row in rows), tuple(tuple(r[1:]) for r in rows)
    )


def read_map(path: Path, params: RapporParams) -> Candidates:
    """map.csv: `string`, then h*m cells `cohort*k + bit + 1`; repeated cells set one bit."""
    values: dict[bytes, list[str]] = {}
    for row in _rows(path):
        if row:
            value = normalise(row[0])
            if value in values:
                raise CountsError(f"{path.name}: {shown(row[0])} stands twice")
            values[value] = row[1:]
    if not values:
        raise CountsError(f"{path.name} has no rows")
    return Candidates(list(values), tensor=_tensor(path, values, params))


def write_metrics_json(decoding: Decoding, elapsed_seconds: float, path: Path) -> None:
    """metrics.json: their six numbers about the analysis."""
    summary = decoding.summary
    metrics = {
        "sample_size": summary.num_reports,
        "allocated_mass": summary.allocated_share,
        "num_detected": summary.num_detected,
        "explained_var": summary.explained,
        "missing_var": summary.missing,
        "total_elapsed_time": elapsed_seconds,
    }
    path.write_text(json.dumps(metrics) + "\n", encoding="utf-8")


def write_params(params: RapporParams, path: Path) -> None:
    """params.csv of parameters that RAPPOR's f, p and q can express."""
    row = (params.num_bits, params.num_hashes, params.num_cohorts)
    probabilities = (params.prob_p, params.prob_q, params.prob_f)
    _write(path, [_PARAMS_HEADER, [*map(str, row), *map(repr, probabilities)]])


def write_counts(aggregate: Aggregate, path: Path) -> None:
    """counts.csv of an aggregate."""
    pairs = zip(aggregate.reports_per_cohort, aggregate.bit_counts, strict=True)
    _write(path, [[str(total), *map(str, counts)] for total, counts in pairs])


def write_map(candidates: Candidates, params: RapporParams, path: Path) -> None:
    """map.csv of candidates; a bit that two hashes set is written once, then repeated."""
    positions = candidates.positions(params).astype(np.int64)
    first = positions[:, :, :1]
    whole = np.where(positions == params.num_bits, first, positions)
    cells = whole + (np.arange(params.num_cohorts) * params.num_bits)[:, None] + 1
    flat = cells.reshape(len(positions), -1).tolist()
    named = zip(candidates.values, flat, strict=True)
    _write(path, [[value.decode(), *map(str, row)] for value, row in named])


def _tensor(
    path: Path, values: dict[bytes, list[str]], params: RapporParams
) -> NDArray[np.signedinteger]:
    k, h, m = params.num_bits, params.num_hashes, params.num_cohorts
    if any(len(cells) != h * m for cells in values.values()):
        widths = sorted({len(cells) for cells in values.values()})
        raise CountsError(
            f"{path.name} has rows of {widths} cells; the parameters say h*m = {h * m}"
        )
    try:
        cells = np.array(list(values.values()), dtype=np.int64).reshape(len(values), m, h)
    except ValueError as error:
        raise CountsError(f"{path.name}: {error}; cells are whole numbers") from error
    bits = cells - 1 - (np.arange(m) * k)[:, None]
    if bits.min() < 0 or bits.max() >= k:
        raise CountsError(
            f"{path.name}: a cell lies outside its cohort; cells are cohort*k + bit + 1, "
            f"cohorts in order, k = {k}"
        )
    return mark_repeated(bits.astype(position_type(k)), k)


def _rows(path: Path) -> list[list[str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CountsError(f"{path.name}: cannot be read as CSV: {error}") from error


def _write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
