"""The decoder of a made-up kind: the share of odd numbers."""

from collections.abc import Sequence

from decoder.kinds.interface import KindDecoder
from decoder.kinds.result import Question, Result, manifest_of
from decoder.sources.windows import sum_of
from decoder.tables.table import Column, ColumnType, TableSchema
from rappor_core.aggregate import Aggregate

PARITIES = TableSchema(
    "parities",
    "Odd and even",
    (
        Column("parity", ColumnType.TEXT, "Odd or even.", shown=True),
        Column("share", ColumnType.SHARE, "Unbiased share of the reports.", shown=True),
    ),
)


class Parities(KindDecoder):
    """The decoder of parities."""

    title = "Odd and even"
    schemas = (PARITIES,)

    def decode(self, counts: Sequence[Aggregate], question: Question) -> Result:
        """Decode the sum of the counts; see `KindDecoder.decode`."""
        window = sum_of(counts)
        params, total = window.params, window.num_reports
        ones = sum(row[0] for row in window.bit_counts) / total
        odd = (ones - params.p_star) / (params.q_star - params.p_star)
        table = PARITIES.of_rows([("odd", odd), ("even", 1 - odd)])
        content = {"metric": window.metric, "num_reports": total, "rows": table.records()}
        summary = {"headline": f"{odd:.0%} odd", "num_reports": total, "warnings": []}
        manifest = manifest_of(window, question.options)
        return Result(content, summary, (table,), manifest=manifest)


KIND = Parities()
