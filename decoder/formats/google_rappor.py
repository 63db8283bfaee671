"""Readers of google/rappor's params.csv, counts.csv and map.csv, and a writer of metrics.json.

The formats are those of its analysis tools of 2017."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from decoder.candidates.lists import Candidates, ReadNotes
from decoder.errors import CountsError
from decoder.files import naming, replacing
from decoder.numerics.bit_tensor import Positions, mark_repeated, position_type
from decoder.tables.reading import read_rows, read_table
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown
from rappor_core.hashing import normalize
from rappor_core.params import HashFamily, RapporParams

_PARAMS_HEADER = ["k", "h", "m", "p", "q", "f"]


def read_params(path: Path, hash_family: HashFamily = "md5") -> RapporParams:
    """Read params.csv: the header `k,h,m,p,q,f` and one row. Raises CountsError if invalid."""
    names = ",".join(_PARAMS_HEADER)
    with naming(path, CountsError, f"give {names} and a row of their numbers"):
        rows = list(read_table(path, _PARAMS_HEADER))
        if len(rows) != 1:
            raise CountsError(f"{len(rows)} rows under the header {names}; give one")
        k, h, m = (rows[0].whole_number(name) for name in _PARAMS_HEADER[:3])
        p, q, f = (rows[0].number(name) for name in _PARAMS_HEADER[3:])
        return RapporParams.rappor(
            num_bits=k, num_hashes=h, num_cohorts=m, prob_f=f, prob_p=p, prob_q=q, hash=hash_family
        )


def read_counts(path: Path, params: RapporParams, metric: str = "google-rappor") -> Aggregate:
    """Read counts.csv: m rows with a total and k bit counts, bit 0 first, without a header.

    Raises CountsError if the shape is different."""
    with naming(path, CountsError, "counts are whole numbers, a row a cohort"):
        rows = [[row.whole_number(column) for column in row.cells] for row in read_rows(path)]
        shape = (params.num_cohorts, params.num_bits + 1)
        if (len(rows), len(rows[0]) if rows else 0) != shape:
            raise CountsError(
                f"{len(rows)} rows of {len(rows[0]) if rows else 0} cells; the parameters say "
                f"{shape[0]} cohorts of 1 + {params.num_bits} (total, then the count of each bit)"
            )
        totals, counts = tuple(row[0] for row in rows), tuple(tuple(row[1:]) for row in rows)
        return Aggregate(metric, params, totals, counts)


def read_map(path: Path, params: RapporParams) -> Candidates:
    """Read map.csv: rows with a string and a cell `cohort*k + bit + 1` for each bit that it sets.

    If hashes collide, google/rappor's tools repeat the cell, or omit it and pad the row with empty
    cells. Raises CountsError if the file is invalid."""
    with naming(path, CountsError, "cells are whole numbers"):
        values: dict[bytes, int] = {}
        cells: list[list[int]] = []
        for row in read_rows(path, ragged=True):
            value = normalize(row.text(1))
            if value in values:
                raise row.refused(1, f"{shown(row.text(1))} is repeated")
            values[value] = row.line
            columns = [column for column, text in row.cells.items() if text][1:]
            cells.append([row.whole_number(column) for column in columns])
        if not values:
            raise CountsError("no rows; give a string and the cells of its bits in each")
        tensor = _tensor(cells, list(values.values()), params)
        # In basic RAPPOR each string has a separate bit. Hashes may assign separate bits to a short
        # list by chance, although unlisted strings share them. So require that the strings have the
        # first bits, or that each has the same bit in all of several cohorts.
        bits = tensor[:, :, 0]
        ranked = np.sort(bits, axis=0)
        alone = params.num_hashes == 1 and len(bits) > 1 and (np.diff(ranked, axis=0) != 0).all()
        fixed = params.num_cohorts > 1 and (bits == bits[:, :1]).all()
        own_bits = alone and (fixed or (ranked == np.arange(len(bits))[:, None]).all())
        notes = ReadNotes(read=len(values))
        return Candidates(list(values), notes, tensor, own_bits=bool(own_bits))


def write_metrics_json(summary: Mapping[str, Any], elapsed_seconds: float, path: Path) -> None:
    """Write google/rappor's six metrics of an analysis, from the summary in results.json."""
    names = {"sample_size": "num_reports", "allocated_mass": "allocated_share",
             "num_detected": "num_detected", "explained_var": "explained",
             "missing_var": "missing"}  # fmt: skip
    metrics = {theirs: summary[ours] for theirs, ours in names.items()}
    metrics["total_elapsed_time"] = elapsed_seconds
    with replacing(path) as part:
        part.write_text(json.dumps(metrics) + "\n", encoding="utf-8")


def _tensor(cells: list[list[int]], lines: list[int], params: RapporParams) -> Positions:
    """Convert the cells of each string to its bits (M, m, h); k if a string sets fewer bits."""
    k, h, m = params.num_bits, params.num_hashes, params.num_cohorts
    owner = np.repeat(np.arange(len(cells)), [len(row) for row in cells])
    flat = np.array([cell for row in cells for cell in row], dtype=np.int64)
    cohort, bit = np.divmod(flat - 1, k)
    outside = (cohort < 0) | (cohort >= m)
    group = owner * m + np.where(outside, 0, cohort)
    sizes = np.bincount(group, minlength=len(cells) * m)
    unordered = np.append(False, (np.diff(group) < 0))
    wrong = np.flatnonzero((sizes < 1) | (sizes > h)) // m
    wrong = np.concatenate([wrong, owner[outside | unordered]])
    if len(wrong):
        raise CountsError(
            f"line {lines[int(wrong.min())]}: its cells are not 1 to {h} bits of each of {m} "
            f"cohorts in order; cells are cohort*k + bit + 1, k = {k}"
        )
    tensor = np.full((len(cells) * m, h), k, dtype=position_type(k))
    tensor[group, np.arange(len(group)) - (np.cumsum(sizes) - sizes)[group]] = bit
    return mark_repeated(tensor.reshape(len(cells), m, h), k)
