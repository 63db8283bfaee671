"""google/rappor's association files: reports of several variables, a schema, parameters, maps.

`reports`: `client,cohort,VARIABLE,...` with bit strings, most significant bit first.  `schema`:
`metric,var,var_type,params`, var_type `string` or `boolean`; the parameters are `PARAMS.csv` in a
folder. A boolean is one bit with the same noise. Strings need a map.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from decoder.association.linked import Bits, LinkedReports, Side
from decoder.errors import CountsError
from decoder.files import naming, whole_number
from decoder.formats.google_rappor import read_map, read_params
from decoder.model.noise import BitNoise, RandomString
from rappor_core.errors import shown
from rappor_core.params import RapporParams

_SCHEMA = ("metric", "var", "var_type", "params")
_TYPES = ("string", "boolean")


@dataclass(frozen=True)
class AssociationFiles:
    """The input files of google/rappor's decode_assoc.

    variables: the two of the schema.  maps: of those that are strings, by name.
    """

    reports: Path
    schema: Path
    params_folder: Path
    metric: str
    variables: tuple[str, str]
    maps: tuple[Path | None, Path | None]


@dataclass(frozen=True)
class LinkedFiles:
    """The contents of google/rappor's association files.

    repeated: number of rows of a client that has another row before.
    blank: number of rows that were left out, since one of the two variables is blank.
    """

    reports: LinkedReports
    first: Side
    second: Side
    repeated: int
    blank: int


def read_association(files: AssociationFiles) -> LinkedFiles:
    """Read google/rappor's association files. Raises CountsError that names the file and what is
    wrong.

    Rows in which one of the two variables is blank are left out and counted. A string gets one
    more value, for those that its map does not list.
    """
    kinds, params = _schema(files)
    sides = [
        _side(name, kind, params, path)
        for name, kind, path in zip(files.variables, kinds, files.maps, strict=True)
    ]
    way_out = "give client,cohort and a column of bits for each variable"
    with naming(files.reports, CountsError, way_out):
        with files.reports.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        missing = {"cohort", *files.variables} - set(rows[0] if rows else ())
        if missing:
            raise CountsError(f"column {shown(min(missing))} is missing, or there are no rows")
        kept = [row for row in rows if all(row[name] for name in files.variables)]
        if not kept:
            raise CountsError("no row has both variables")
        cohorts = np.array([whole_number(r["cohort"], "cohort") for r in kept]) % params.num_cohorts
        bits = [
            _bits([row[name] for row in kept], side.designs.shape[1], name)
            for name, side in zip(files.variables, sides, strict=True)
        ]
    clients = [row["client"] for row in kept if row.get("client")]
    repeated = len(clients) - len(set(clients))
    linked = LinkedReports(cohorts, bits[0], bits[1])
    return LinkedFiles(linked, sides[0], sides[1], repeated, len(rows) - len(kept))


def _schema(files: AssociationFiles) -> tuple[list[str], RapporParams]:
    with naming(files.schema, CountsError, f"give the columns {', '.join(_SCHEMA)}"):
        with files.schema.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        found = []
        for name in files.variables:
            mine = [r for r in rows if (r.get("metric"), r.get("var")) == (files.metric, name)]
            if len(mine) != 1:
                raise CountsError(f"metric {files.metric!r} has {len(mine)} rows of {name!r}")
            if mine[0].get("var_type") not in _TYPES or not mine[0].get("params"):
                raise CountsError(f"{name!r}: var_type is not string or boolean, or no params")
            found.append(mine[0])
        if found[0]["params"] != found[1]["params"]:
            raise CountsError("the two variables have different params; they share a cohort")
        stem = found[0]["params"]
        if Path(stem).name != stem:
            raise CountsError(f"params = {shown(stem)} is not the name of a file")
    params = read_params(files.params_folder / f"{stem}.csv")
    return [row["var_type"] for row in found], params


def _side(name: str, kind: str, params: RapporParams, map_file: Path | None) -> Side:
    noise = BitNoise.of(params.mechanism)
    if kind != _TYPES[0]:
        designs = np.broadcast_to(np.array([[0.0, 1.0]]), (params.num_cohorts, 1, 2)).copy()
        return Side(name, ("FALSE", "TRUE"), designs, noise)
    if map_file is None:
        raise CountsError(f"{name!r} is a string: give its map.csv")
    candidates = read_map(map_file, params)
    positions = np.asarray(candidates.positions(params))
    designs = np.zeros((params.num_cohorts, params.num_bits + 1, len(candidates)))
    value, cohort, _ = np.indices(positions.shape)
    designs[cohort, positions, value] = 1  # a repeated position is k, the row that is cut off
    names = tuple(value.decode(errors="replace") for value in candidates.values)
    side = Side(name, names, designs[:, : params.num_bits], noise)
    return side.with_unlisted(RandomString(params.num_bits, params.num_hashes).mean)


def _bits(texts: Sequence[str], width: int, name: str) -> Bits:
    """Bit strings as (N, k), bit 0 first."""
    for line, text in enumerate(texts, start=1):
        if len(text) != width or set(text) - {"0", "1"}:
            raise CountsError(f"report {line}: {name} = {shown(text)} is not {width} bits")
    joined = np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8).reshape(-1, width)
    return np.asarray((joined - ord("0"))[:, ::-1])
