"""The kind number: quantiles, mean and curve, and their changes."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from decoder.files import finite, row_of
from decoder.kinds.interface import KindDecoder
from decoder.kinds.over_time import SeriesFound, days_of, series_result
from decoder.kinds.result import MANIFEST, PageParts, Question, Result, StoredResult, manifest_of
from decoder.numbers.changes import ANY_DATA, MEAN, NumberSeries, decode_numbers_over_time
from decoder.numbers.decoding import decode_numbers
from decoder.numbers.quantities import Bin, CurvePoint, NumberDecoding
from decoder.options import DecodeOptions
from decoder.output.charts import Estimate, estimate_plots
from decoder.sources.windows import sum_of
from decoder.tables.format import between, count, days, edge_text, interval, number_text, percent
from decoder.tables.paging import TableQuery
from decoder.tables.table import SHARE_INTERVAL, Column, ColumnType, TableSchema
from rappor_core.aggregate import Aggregate

_OPEN = ("lower", "upper")  # the columns for the edges of a bin; None if the bin is open


def _mark(edge: float | None, where: str, part: CurvePoint | Bin) -> Estimate:
    label = "" if edge is None else f"{float(f'{edge:.3g}'):,.10g}"
    title = f"{where}: {interval(part.low, part.high)}"
    return Estimate(label, title, part.estimate, part.low, part.high, part.fitted)


_NUMBER, _SHARE = ColumnType.NUMBER, ColumnType.SHARE
_FITTED = Column("fitted", _SHARE, "Share by one best-fit curve, a guess without an interval.")
CURVE = TableSchema(
    "curve",
    "Share of devices at or above each edge",
    (
        Column("edge", _NUMBER, "The edge, in the metric's unit.", "at or above", shown=True),
        Column("at_or_above", _SHARE, "Unbiased share at or above the edge.", "share", shown=True),
        *SHARE_INTERVAL,
        Column("band_low", _SHARE, "Lower end of the band that holds for all edges together."),
        Column("band_high", _SHARE, "Upper end of the band that holds for all edges together."),
        _FITTED,
        Column("reports", ColumnType.INTEGER, "Reports that were asked about the edge."),
    ),
)
BINS = TableSchema(
    "bins",
    "Share of devices in each bin",
    (
        Column("from", _NUMBER, "Lower edge; empty where the bin is open.", shown=True),
        Column("to", _NUMBER, "Upper edge, excluded; empty where the bin is open.", shown=True),
        Column("share", _SHARE, "Unbiased share in the bin.", shown=True),
        *SHARE_INTERVAL,
        _FITTED,
    ),
)
QUANTILES = TableSchema(
    "quantiles",
    "Quantiles",
    (
        Column("share", _SHARE, "Share of devices below the quantile.", "share below", shown=True),
        Column("low", _NUMBER, "The quantile is this edge or more; empty if below the first.",
               "from", shown=True),
        Column("high", _NUMBER, "The quantile is below this edge; empty if above the last.",
               "to below", shown=True),
        Column("fitted", _NUMBER, "Best-fit quantile, a guess.", "best fit", shown=True),
    ),
)  # fmt: skip
MEANS = TableSchema(
    "mean",
    "Mean, and devices with data",
    (
        Column("quantity", ColumnType.TEXT, "What is estimated.", shown=True),
        Column("estimate", _NUMBER, "In the metric's unit, or a share.", shown=True),
        Column("low", _NUMBER, "Lower end of the interval.", shown=True),
        Column("high", _NUMBER, "Upper end of the interval.", shown=True),
    ),
)
_AS_TEXT = tuple(replace(column, type=ColumnType.TEXT) for column in MEANS.columns)
MAX_LISTED = 20  # the maximum number of quantiles in a summary
_OF_PERIOD = {
    "sum": "sum", "count": "number of records", "mean": "mean", "median": "median",
    "max": "largest number", "last": "last number",
}  # fmt: skip


class Numbers(KindDecoder):
    """The decoder for number metrics."""

    title = "Numbers"
    purpose = "curve, quantiles and mean of a metric of numbers"
    operations = ("decode", "series", "compare")
    schemas = (CURVE, BINS, QUANTILES, MEANS)
    no_candidates = "a metric of numbers has a curve, not candidates"

    def decode(self, counts: Sequence[Aggregate], question: Question) -> Result:
        """Decode the sum of the counts; see `KindDecoder.decode`."""
        window = sum_of(counts)
        decoding = decode_numbers(window, question.options)
        question.progress("numbers", 1, 1)
        return numbers_result(decoding, question.options)

    def series(self, windows: Sequence[Aggregate], question: Question) -> Result:
        """Decode all windows together and each window alone, and test for changes."""
        over_time = _over_time(decode_numbers_over_time(windows, question.options))
        return series_result(self.decode(windows, question), over_time, question.options)

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """Return quantiles and the mean, then charts of the curve and the bins."""
        del query
        facts, definition = stored.json(), stored.json(MANIFEST)["definition"]
        what = _OF_PERIOD.get(facts["of_period"], facts["of_period"])
        points = [row_of(CurvePoint, point) for point in facts["curve"]]
        bins = [row_of(Bin, bin_, _OPEN) for bin_ in facts["bins"]]
        curve = [_mark(point.edge, edge_text(point.edge), point) for point in points]
        bars = []
        for bin_ in bins:
            bars.append(_mark(bin_.lower, between(bin_.lower, bin_.upper), bin_))
        band = [(point.band_low, point.band_high) for point in points]
        view = {
            "found": facts,
            "curve": estimate_plots(curve, band) if points else (),
            "bins": estimate_plots(bars) if points else (),
            "of_period": what,
            "level": f"{100 * facts['level']:g} %",
        }
        lead = (
            f"The {what} of each {definition.get('period', 'day')}, in {facts['unit']}; "
            f"{days(facts['first_day'], facts['last_day'])}; {count(facts['num_reports'])} reports"
        )
        return PageParts("result_number.html.j2", view, lead)


KIND = Numbers()


def numbers_result(decoding: NumberDecoding, options: DecodeOptions) -> Result:
    """Return the result of decoding a number metric."""
    number = decoding.number
    whose = "of devices" if decoding.with_data is None else "of devices with data"
    unit = f"{number.unit}, {whose}"
    rows = {
        name: [asdict(row) for row in getattr(decoding, name)]
        for name in ("curve", "bins", "quantiles")
    }
    curve, bins, quantiles = (
        schema.of_rows([tuple(row.values()) for row in rows[schema.name]], title)
        for schema, title in ((CURVE, f"Share at or above each edge, {unit}"), (BINS, ""),
                              (QUANTILES, f"{decoding.metric}: {count(decoding.num_reports)} "
                                          f"reports; quantiles, {unit}"))
    )  # fmt: skip
    data, average, means = decoding.with_data, decoding.mean, []
    if data is not None:
        means.append(("share of devices with data", data.estimate, data.low, data.high))
    if average is not None:
        name = f"{'geometric ' if average.geometric else ''}mean, {number.unit}"
        top = average.at_or_above_top
        clipped = f"share at or above {average.clipped_to[1]:g}, where the mean is clipped"
        means += [(name, average.estimate, average.low, average.high),
                  (clipped, top.estimate, top.low, top.high)]  # fmt: skip
    mean = MEANS.of_rows(means)
    texts = [(name, *map(percent if name.startswith("share") else number_text, numbers))
             for name, *numbers in means]  # fmt: skip
    printed = replace(MEANS, columns=_AS_TEXT).of_rows(texts)
    content: dict[str, Any] = finite(
        {
            **decoding.described(),
            "epsilon_infinity": decoding.params.epsilon_infinity,
            "epsilon_one": decoding.params.epsilon_one,
            **{name: getattr(number, name) for name in ("unit", "of_period", "mode")},
            **{
                name: getattr(decoding, name)
                for name in ("level", "alpha", "repetition", "kappa", "freedom")
            },
            "with_data": decoding.with_data and asdict(decoding.with_data),
            **rows,
            "mean": decoding.mean and asdict(decoding.mean),
            "warnings": list(decoding.warnings),
        }
    )
    median = [f"median {between(one.low, one.high)} {number.unit}".rstrip()
              for one in decoding.quantiles if one.share == 0.5]  # fmt: skip
    summary = {
        **{name: content[name] for name in ("num_reports", "unit", "mean", "warnings")},
        "quantiles": content["quantiles"][:MAX_LISTED],
        "headline": "; ".join(median) or "curve and quantiles",
    }
    return Result(
        content,
        summary,
        (curve, bins, quantiles, mean),
        manifest=manifest_of(decoding, options, repeats=decoding.repetition),
        notes=decoding.warnings,
        printed=(quantiles, printed, curve),
    )


def _over_time(series: NumberSeries) -> SeriesFound:
    """Return shares at or above each edge, preceded by the share with data if asked separately."""
    first = series.windows[0]
    unit, has_apart = first.number.unit, first.with_data is not None

    def named(quantities: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            name
            if name == ANY_DATA or name.startswith(MEAN)
            else f"at or above {name} {unit}".rstrip()
            for name in quantities
        )

    edges = [ANY_DATA] * has_apart + [f"{point.edge:.10g}" for point in first.curve]
    shares = [
        [[getattr(part, name) for part in [*([window.with_data] * has_apart), *window.curve]]
         for name in ("estimate", "std_error", "low", "high")]
        for window in series.windows
    ]  # fmt: skip
    changes = [replace(change, quantities=named(change.quantities)) for change in series.changes]
    means = [
        days_of(row) | {"median": [median.low, median.high], "mean": row.mean and asdict(row.mean)}
        for row in series.windows
        for median in row.quantiles
        if median.share == 0.5
    ]
    return SeriesFound(series.windows, named(edges), shares, changes, means, unit)
