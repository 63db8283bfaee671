"""Read and write google/rappor's files.

Their params.csv, counts.csv and map.csv are read, metrics.json is written (the analysis tools of
2017); results.csv is in `outputs`, with their seven columns first.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from decoder.candidates.lists import Candidates, ReadNotes
from decoder.errors import CountsError
from decoder.files import naming, replacing, whole_number
from decoder.numerics.bit_tensor import Positions, mark_repeated, position_type
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown
from rappor_core.hashing import normalise
from rappor_core.params import HashFamily, RapporParams

_PARAMS_HEADER = ["k", "h", "m", "p", "q", "f"]


def read_params(path: Path, hash_family: HashFamily = "md5") -> RapporParams:
    """Read params.csv: header `k,h,m,p,q,f`, one row. Raises CountsError with what is wrong."""
    header = ",".join(_PARAMS_HEADER)
    with naming(path, CountsError, f"give {header} and a row of their numbers"):
        rows = [row for row in _rows(path) if row]
        widths = [len(row) for row in rows]
        if widths != [6, 6] or [name.strip().strip('"') for name in rows[0]] != _PARAMS_HEADER:
            raise CountsError(f"expected the header {header} and one row of 6 cells")
        cells = zip(_PARAMS_HEADER, rows[1], strict=True)
        k, h, m = (whole_number(cell, name) for name, cell in islice(cells, 3))
        p, q, f = (float(cell) for _, cell in cells)
        return RapporParams.rappor(
            num_bits=k, num_hashes=h, num_cohorts=m, prob_f=f, prob_p=p, prob_q=q, hash=hash_family
        )


def read_counts(path: Path, params: RapporParams, metric: str = "google-rappor") -> Aggregate:
    """Read counts.csv: m rows of the total and k bit counts, bit 0 first, no header, no cohort."""
    with naming(path, CountsError, "counts are whole numbers, a row a cohort"):
        lines = enumerate(_rows(path), start=1)
        rows = [[whole_number(c, f"line {n}: the count") for c in row] for n, row in lines if row]
        shape = (params.num_cohorts, params.num_bits + 1)
        if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
            widths = sorted({len(row) for row in rows})
            raise CountsError(
                f"{len(rows)} rows of {widths} cells; the parameters say {shape[0]} "
                f"cohorts of 1 + {params.num_bits} (total, then the count of each bit)"
            )
        totals, counts = tuple(row[0] for row in rows), tuple(tuple(row[1:]) for row in rows)
        return Aggregate(metric, params, totals, counts)


def read_map(path: Path, params: RapporParams) -> Candidates:
    """Read map.csv: `string`, then h*m cells `cohort*k + bit + 1`; repeated cells set one bit."""
    with naming(path, CountsError, "cells are whole numbers"):
        values: dict[bytes, list[str]] = {}
        for line, row in enumerate(_rows(path), start=1):
            if row:
                value = normalise(row[0])
                if value in values:
                    raise CountsError(f"line {line}: {shown(row[0])} stands twice")
                values[value] = row[1:]
        if not values:
            raise CountsError("no rows; give a string and h*m cells in each")
        tensor, notes = _tensor(values, params), ReadNotes(read=len(values))
        return Candidates(list(values), notes, tensor, own_bits=_own_bits(tensor, params))


def write_metrics_json(summary: Mapping[str, Any], elapsed_seconds: float, path: Path) -> None:
    """Write metrics.json: google/rappor's six numbers about the analysis.

    Args:
        summary: in results.json of a decoding.
        elapsed_seconds: of the whole analysis.
        path: of the file.
    """
    metrics = {
        "sample_size": summary["num_reports"],
        "allocated_mass": summary["allocated_share"],
        "num_detected": summary["num_detected"],
        "explained_var": summary["explained"],
        "missing_var": summary["missing"],
        "total_elapsed_time": elapsed_seconds,
    }
    with replacing(path) as part:
        part.write_text(json.dumps(metrics) + "\n", encoding="utf-8")


def _tensor(values: dict[bytes, list[str]], params: RapporParams) -> Positions:
    k, h, m = params.num_bits, params.num_hashes, params.num_cohorts
    if any(len(cells) != h * m for cells in values.values()):
        widths = sorted({len(cells) for cells in values.values()})
        raise CountsError(
            f"rows of {widths} cells behind the string; the parameters say h*m = {h * m}"
        )
    cells = np.array(list(values.values()), dtype=np.int64).reshape(len(values), m, h)
    bits = cells - 1 - (np.arange(m) * k)[:, None]
    if bits.min() < 0 or bits.max() >= k:
        raise CountsError(
            "a cell lies outside its cohort; cells are cohort*k + bit + 1, "
            f"cohorts in order, k = {k}"
        )
    return mark_repeated(bits.astype(position_type(k)), k)


def _own_bits(tensor: Positions, params: RapporParams) -> bool:
    """Whether the map is that of basic RAPPOR: each string has a bit which no other string sets.

    Hashes may give a short list such bits by chance, while strings that are not on it share them.
    So the strings must hold the first bits, or keep their bit in every one of several cohorts.
    """
    bits = tensor[:, :, 0]
    ranked = np.sort(bits, axis=0)
    if params.num_hashes != 1 or len(bits) < 2 or (np.diff(ranked, axis=0) == 0).any():
        return False
    fixed = params.num_cohorts > 1 and bool((bits == bits[:, :1]).all())
    return fixed or bool((ranked == np.arange(len(bits))[:, None]).all())


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))
