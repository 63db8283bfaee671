"""Readers for files of candidates (text, CSV, JSON or Parquet, optionally gzipped) and weights."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from decoder.errors import CandidatesError, MissingColumnError
from decoder.files import naming
from decoder.tables.reading import NOT_UTF8, opened, read_rows, read_table, text_problem
from decoder.typing import Floats, Indices
from rappor_core.errors import shown
from rappor_core.hashing import normalize

_BOM = b"\xef\xbb\xbf"
_SHOWN_COLUMNS = 20


def read_values(path: Path, column: str | None = None) -> Iterator[str | bytes]:
    """Yield the entries of a candidate file in order, as text or bytes.

    Args:
        path: A `.csv[.gz]`, `.parquet[.gz]` or `.json[.gz]` file (a list of strings, which are used
            unchanged). Any other file is text with one value per line, LF or CRLF.
        column: The column's name, or its number in a CSV without a header; None for the only one.

    Raises:
        CandidatesError: A value begins or ends with a space, or the file is not a list of values.
        TableFileError: A CSV file is not a table.
    """
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        return _parquet(path, column)
    if name.endswith(".csv"):
        return _csv_column(path, column)
    if column is not None:
        raise CandidatesError(f"this is a list, not a table: it has no column {column!r}")
    if not name.endswith(".json"):
        return _lines(path)
    with opened(path) as raw:
        try:
            content = json.loads(raw.read())
        except (ValueError, RecursionError) as error:
            raise CandidatesError("this is not JSON, although its name says so") from error
    if not isinstance(content, list) or not all(isinstance(value, str) for value in content):
        raise CandidatesError('this JSON is not a list of strings, such as ["a", "b"]')
    return iter(content)


def _lines(path: Path) -> Iterator[bytes]:
    with opened(path) as file:
        first = file.readline().removeprefix(_BOM)
        for number, line in enumerate(chain([first] if first else [], file), start=1):
            value = line.rstrip(b"\r\n")
            if value and not (b"!" <= value[:1] <= b"~" and b"!" <= value[-1:] <= b"~"):
                _check(value.decode("utf-8", "replace"), f"line {number}")
            yield value


def _check(value: str, place: str) -> None:
    problem = text_problem(value)
    if problem and problem != NOT_UTF8:  # the caller counts these problems
        raise CandidatesError(
            f"{place}: {shown(value)} {problem}, or give a JSON list of strings if devices record "
            "it so"
        )


def _csv_column(path: Path, column: str | None) -> Iterator[str]:
    numbered = column is None or column.isdecimal()
    rows = read_rows(path) if column is None or column.isdecimal() else read_table(path, [column])
    index = (int(column) if column else 1) if numbered else str(column)
    for place, row in enumerate(rows):
        if not place and column is None and len(row.cells) > 1:
            raise CandidatesError(
                f"line 1 has {len(row.cells)} columns ({_names(row.cells.values())}): say which by "
                "column=NAME if they are its header, or by column=2, its number, if they are data"
            )
        if index not in row.cells:
            raise MissingColumnError(f"no column {index}; line 1 has {len(row.cells)}")
        if not place and not numbered:
            others = [str(name).replace(".", "", 1) for name in row.cells if name != column]
            if others and all(name.isdecimal() for name in others):
                raise CandidatesError(
                    f"line 1 ({_names(row.cells)}) is data and not a header: give the column by "
                    f"its number, column={list(row.cells).index(index) + 1}"
                )
        _check(row.cells[index], f"line {row.line}, column {index}")
        yield row.cells[index]


def _parquet(path: Path, column: str | None) -> Iterator[str | bytes]:
    from pyarrow import parquet, types  # 60 ms: only where such a file is read

    with opened(path) as raw:
        file = parquet.ParquetFile(raw)
        names = file.schema_arrow.names
        if column is None and len(names) == 1:
            column = names[0]
        if column not in names:
            raise CandidatesError(f"name one of its columns: {_names(names)}")
        kind = file.schema_arrow.field(column).type
        value_type = kind.value_type if types.is_dictionary(kind) else kind
        texts = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
        if not any(is_type(value_type) for is_type in (*texts, types.is_integer, types.is_date)):
            raise CandidatesError(  # a value of a different type has several text forms
                f"column {column!r} is of type {value_type}, not text: write its values as text, "
                "as devices record them"
            )
        for batch in file.iter_batches(columns=[column]):
            for value in batch.column(0).to_pylist():
                yield "" if value is None else value if isinstance(value, bytes) else str(value)


def _names(names: Any) -> str:
    return ", ".join(map(repr, list(names)[:_SHOWN_COLUMNS]))


MAX_WEIGHT = 1e9  # the largest weight; the smallest is 1 / MAX_WEIGHT


@dataclass(frozen=True)
class Weights:
    """Relative weights of candidates, chosen by the analyst before seeing the data.

    They divide the error level of a decision rule among the candidates. Only their ratios matter.
    Raises CandidatesError if a weight is invalid."""

    of: Mapping[str, float]  # The weight of each value
    others: float | None = None  # The weight of all other values; None: no others

    def __post_init__(self) -> None:
        named = [(f"the weight of {shown(value)}", weight) for value, weight in self.of.items()]
        if self.others is not None:
            named.append(("the weight of the others", self.others))
        for what, weight in named:
            if not (math.isfinite(weight) and 1 / MAX_WEIGHT <= weight <= MAX_WEIGHT):
                raise CandidatesError(
                    f"{what} is {weight!r}, not from {1 / MAX_WEIGHT:g} to {MAX_WEIGHT:g}"
                )

    def among(self, values: Sequence[bytes], group: Indices) -> Floats:
        """Return one weight per group (G,) of candidates that set the same bits, scaled to mean 1.

        A group has its members' largest weight. Raises CandidatesError if a value has no weight.

        Args:
            values: The candidates, (M,).
            group: The index of the first member of each candidate's group, (M,).
        """
        largest, weights = np.zeros(len(values)), []
        for value in map(bytes.decode, values):
            weight = self.of.get(value, self.others)
            if weight is None:
                raise CandidatesError(
                    f"candidate {shown(value)} has no weight; give every candidate one, or "
                    "those that are not listed one together (a line without a value: `,1`)"
                )
            weights.append(weight)
        np.maximum.at(largest, group, np.array(weights))
        of_groups = largest[group == np.arange(len(group))]
        return np.asarray(of_groups / of_groups.mean())

    def to_csv(self) -> str:
        """Return the canonical CSV for `read_weights`: sorted, the unlisted values' weight last."""
        text, others = io.StringIO(), [] if self.others is None else [("", self.others)]
        rows = [(value, repr(weight)) for value, weight in [*sorted(self.of.items()), *others]]
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()

    @property
    def digest(self) -> str:
        """The SHA-256 digest of `to_csv` in UTF-8."""
        return sha256(self.to_csv().encode()).hexdigest()


def read_weights(path: Path) -> Weights:
    """Read weights from a CSV file of `value,weight`; an empty value means all values not listed.

    Raises CandidatesError if the file is damaged."""
    weights: dict[str, float] = {}
    with naming(path, CandidatesError, "give a UTF-8 CSV of value,weight"):
        for row in read_rows(path):
            if len(row.cells) != 2:
                raise CandidatesError(f"line {row.line} is not a value and its weight")
            if not weights and list(row.cells.values()) == ["value", "weight"]:
                continue
            value = normalize(row.text(1)).decode()
            if value in weights:
                raise row.refused(1, f"{shown(value)} is repeated")
            weights[value] = row.number(2)
        if not weights:
            raise CandidatesError("it contains no weights")
        others = weights.pop("", None)
        return Weights(weights, others)
