"""`KindDecoder`: the interface to decode and show the counts of one kind of metric.

To add a kind, write a subclass in a separate module and add a line to `DECODERS`; no other code
compares kind names. A kind without page parts is shown as tables."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from decoder.errors import CandidatesError, DecodeError
from decoder.kinds.over_time import comparison
from decoder.kinds.result import PageParts, Question, Result, StoredResult
from decoder.options import CandidateChoice
from decoder.tables.format import count
from decoder.tables.paging import TableQuery, page_of_parquet
from decoder.tables.table import columns_of
from rappor_core.errors import shown

if TYPE_CHECKING:
    from decoder.tables.table import TableSchema
    from rappor_core.aggregate import Aggregate


MAX_ROWS = 50  # the maximum for tables other than the main table

# For each kind, the module with its instance `KIND`, which is loaded at first use.
DECODERS = {
    "string": "decoder.kinds.values",
    "category": "decoder.kinds.values",
    "boolean": "decoder.kinds.values",
    "number": "decoder.kinds.number",
    "pair": "decoder.kinds.pair",
    "discover": "decoder.kinds.discover",
    "location": "decoder.kinds.location",
    "flow": "decoder.kinds.flow",
}


class KindDecoder:
    """The decoder for one kind of metric."""

    title = "Result"
    purpose = "what the reports say"  # What a decoding shows, to follow the name of a job
    members: frozenset[str] = frozenset()  # Additional members of a job's specification
    operations: tuple[str, ...] = ("decode",)
    schemas: tuple[TableSchema, ...] = ()  # The tables of a decoding, the main table first
    published: tuple[str, ...] = ()  # The files from which a release can be made
    unshared = ""  # Why viewers may not see the kind's results; empty if they may
    command = "decode"  # The `rappor` command that writes the same files
    rows_apart = False  # results.json lacks the rows of the main table, which may be too many
    no_candidates = "the metric has no candidates"

    def check(self, question: Question) -> None:
        """Raise CandidatesError or DecodeError if an option would be ignored."""
        if "candidates" not in self.members:
            if question.candidates != CandidateChoice():
                raise CandidatesError(f"{self.no_candidates}: omit the candidates")
            if question.options.weights is not None:
                raise CandidatesError(f"{self.no_candidates}: omit the weights")
        if question.by and "by" not in self.members:
            raise DecodeError(
                f"by = {question.by!r} compares the arms of a metric of kind 'pair'; this metric "
                "has one side: compare two windows with before and after"
            )

    def decode(self, counts: Sequence[Aggregate], question: Question) -> Result:
        """Decode a window.

        Args:
            counts: The aggregates of the window; for a location, those of every slot and level.
            question: The question, which has passed `check`.

        Raises:
            RapporError: The counts, a file or the options are invalid.
        """
        raise NotImplementedError

    def series(self, windows: Sequence[Aggregate], question: Question) -> Result:
        """Decode windows, oldest first, and the changes between them; otherwise like `decode`."""
        raise NotImplementedError

    def compare(
        self, before: Sequence[Aggregate], after: Sequence[Aggregate], question: Question
    ) -> Result:
        """Decode the changes from one window to another; otherwise like `decode`."""
        from decoder.sources.windows import sum_of

        windows = sum_of(before), sum_of(after)
        if len({(window.metric, window.params_id) for window in windows}) > 1:
            meanings = " and ".join(f"{window.metric!a} ({window.params_id})" for window in windows)
            raise DecodeError(
                f"the windows are of {meanings}: their reports mean different things; decode each "
                "alone"
            )
        return comparison(self.series(windows, question))

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """Return the parts of the result's page: every table; the query applies to the main one."""
        from pyarrow import parquet

        document, tables = stored.json(), []
        names = sorted(name.removesuffix(".parquet") for name in stored.files
                       if name.endswith(".parquet"))  # fmt: skip
        for name in sorted(names, key=lambda other: other != self.main_table):
            content = stored.read(f"{name}.parquet")
            part = query if name == self.main_table else TableQuery(rows=MAX_ROWS)
            schema = parquet.read_schema(io.BytesIO(content))
            columns = [column for column in columns_of(schema) if column.shown]
            page = page_of_parquet(content, part, [column.name for column in columns])
            tables.append((schema.metadata[b"table"].decode(), columns, page))
        lead = f"{count(document['num_reports'])} reports" if "num_reports" in document else ""
        view = {"shown": tables, "warnings": document.get("warnings", [])}
        return PageParts("result_tables.html.j2", view, lead)

    @property
    def main_table(self) -> str:
        """The name of the main table of a decoding."""
        return self.schemas[0].name

    def title_of(self, operation: str) -> str:
        """Return the title of a result."""
        ends = {"series": " over time", "compare": ", two windows compared"}
        return self.title + ends.get(operation, "")

    def table_of(self, operation: str) -> str:
        """Return the name of the main table of a result."""
        has_series = "series" in self.operations
        return operation if has_series and operation != "decode" else self.main_table


def decoder_of(kind: object) -> KindDecoder:
    """Return the decoder for a metric kind. Raises DecodeError if the kind is unknown."""
    if not isinstance(kind, str) or kind not in DECODERS:
        raise DecodeError(f"kind {shown(kind)} has no decoder; {', '.join(DECODERS)} have one")
    decoder: KindDecoder = import_module(DECODERS[kind]).KIND
    return decoder


def has_candidates(kind: object) -> bool:
    """Return whether a kind of metric is decoded with a list of candidates."""
    return kind in DECODERS and "candidates" in decoder_of(kind).members


def kinds_with(operation: str) -> tuple[str, ...]:
    """Return the metric kinds that support an operation."""
    return tuple(kind for kind in DECODERS if operation in decoder_of(kind).operations)
