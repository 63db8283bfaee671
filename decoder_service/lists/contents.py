"""Read and check a file that a person sends as the content of a list, and bring it into
canonical form."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from decoder.candidates.files import read_weights
from decoder.candidates.lists import Candidates
from decoder.errors import CandidatesError, CountsError, DecodeError
from decoder.formats.density_inputs import (
    flow_counts_csv,
    outlines_json,
    read_flow_counts,
    read_outlines,
)
from decoder_service.shell.models import ListKind
from rappor_server.errors import RequestError

SUFFIXES = ("txt", "csv")  # not packed: what it takes in memory is bounded by its bytes
_GZIP = b"\x1f\x8b"
_ENDS = ("\n", "\r")
_FIXED = {  # columns of tables
    ListKind.WEIGHTS: "weights have two columns, value and weight",
    ListKind.FLOWS: "known flows have columns origin, destination and count",
}
Read = TypeVar("Read")


@dataclass(frozen=True)
class ListFile:
    """How a kind of list is downloaded. columns: of a CSV; 0: it is none."""

    stem: str
    suffix: str
    media_type: str
    columns: int = 0


FILES = {
    ListKind.CANDIDATES: ListFile("list", "txt", "text/plain; charset=utf-8"),
    ListKind.WEIGHTS: ListFile("weights", "csv", "text/csv; charset=utf-8", 2),
    ListKind.FLOWS: ListFile("flows", "csv", "text/csv; charset=utf-8", 3),
    ListKind.AREAS: ListFile("areas", "geojson", "application/geo+json"),
}


def file_name(kind: str, list_id: str, number: int | None) -> str:
    """File name of a downloaded version, as the shown command line names it."""
    file = FILES[ListKind(kind)]
    return f"{file.stem}-{list_id}-{number}.{file.suffix}"


def content_of(
    content: bytes, kind: ListKind, suffix: str, column: str | None
) -> tuple[bytes, int]:
    """The content as it is stored, and how many distinct values it has.

    Candidates are stored a value a line, in their order; weights as `Weights.to_csv`, known flows
    as `flow_counts_csv`, so that the same ones in another order are the same content; areas as
    `outlines_json`, in their order.

    Args:
        content: a file.
        kind: what it holds.
        suffix: of a file of candidates: txt (a value a line) or csv; others have one form.
        column: of a table of candidates; of areas the property that names them, "name" if None.

    Raises:
        RequestError, CandidatesError, CountsError, DecodeError.
    """
    if suffix not in SUFFIXES:
        raise RequestError(f"format {suffix[:20]!a} is not one of {', '.join(SUFFIXES)}")
    if content.startswith(_GZIP):
        raise RequestError("the list is gzip; send it unpacked")
    of = _FIXED.get(kind)
    if of is not None and column is not None:
        raise RequestError(f"{of}; name none")
    if kind == ListKind.AREAS:
        areas = _read(content, "geojson", lambda path: read_outlines(path, column or "name"))
        return outlines_json(areas).encode("utf-8", "surrogatepass"), len(areas)
    if kind == ListKind.FLOWS:
        flows = _read(content, "csv", read_flow_counts)
        return flow_counts_csv(flows).encode(), len(flows)
    if kind == ListKind.WEIGHTS:
        weights = _read(content, "csv", read_weights)
        if not weights.of:
            raise RequestError("no value has a weight; give a value and its weight a line")
        if any(end in value for value in weights.of for end in _ENDS):
            raise RequestError("a value holds a line break; no list of candidates has such a value")
        return weights.to_csv().encode(), len(weights.of)
    values = _read(content, suffix, lambda path: Candidates.from_file(path, column)).values
    if any(b"\n" in value or b"\r" in value for value in values):
        raise RequestError("a value holds a line break; a list has a value a line")
    return b"".join(value + b"\n" for value in values), len(values)


def _read(content: bytes, suffix: str, read: Callable[[Path], Read]) -> Read:
    with tempfile.TemporaryDirectory(prefix="rappor-list-") as folder:
        path = Path(folder) / f"list.{suffix}"
        path.write_bytes(content)
        try:
            return read(path)
        except (CandidatesError, CountsError, DecodeError) as error:
            raise type(error)(str(error).replace(f"{path}: ", "the list: ")) from error
