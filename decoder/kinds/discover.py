"""The kind discover: frequent strings without a list of candidates.

The strings are text that devices chose. In tables and pages they are escaped, truncated and
isolated; only results.json contains them unchanged. A string cannot become a candidate for another
metric until a person has read it and written `yes` in the column `publish` (`approved_strings`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

from decoder.discovery.discovery import DiscoverOptions, Discovery, FoundString, discover
from decoder.errors import CandidatesError, DecodeError
from decoder.files import naming, row_of
from decoder.kinds.interface import KindDecoder
from decoder.kinds.result import RESULTS, PageParts, Question, Result, StoredResult, manifest_of
from decoder.sources.windows import sum_of
from decoder.tables.format import count, days, percent
from decoder.tables.paging import TableQuery, page_of
from decoder.tables.reading import read_table
from decoder.tables.table import Column, ColumnType, TableSchema
from rappor_core.aggregate import Aggregate
from rappor_core.text import counted, visible

_SHARE, _TEXT = ColumnType.SHARE, ColumnType.TEXT
STRINGS = TableSchema(
    "discovered",
    "Detected strings",
    (
        Column("id", _TEXT, "Represents the string in a review."),
        Column("string", _TEXT, "The string, escaped and truncated; unchanged in results.json.",
               shown=True),
        Column("estimate", _SHARE, "Unbiased share of the reports.", "share", shown=True),
        Column("std_error", _SHARE, "Standard error of `estimate`."),
        Column("low", _SHARE, "Lower end of the interval after selection.", shown=True),
        Column("high", _SHARE, "Upper end of the interval after selection.", shown=True),
        Column("p_adjusted", ColumnType.P_VALUE,
               "P-value of the test that no one has the string, corrected for all tests.",
               "corrected p", shown=True),
        Column("whole", _TEXT, "`no` where the row represents every string that begins so."),
        Column("declared", _TEXT, "`fallback` or `no_data` where the metric itself sends it."),
        Column("publish", _TEXT, "For the person who reads the strings: write yes or no."),
    ),
)  # fmt: skip
REVIEW = "devices chose this text: a person must read it before it is published"
MAX_SHOWN = 80
BEGINNING = "only its beginning"


class Discoveries(KindDecoder):
    """The decoder for discover metrics, which find strings without a list."""

    title = "Strings without a list"
    purpose = "frequent strings of a discover metric, without a list"
    members = frozenset({"crowd"})
    schemas = (STRINGS,)
    command = "discover"
    no_candidates = "a metric of kind discover needs no list"
    unshared = (
        "these strings are text that devices chose: read them, keep those that may be shown as a "
        "list, and decode that"
    )

    def decode(self, counts: Sequence[Aggregate], question: Question) -> Result:
        """Find strings in the sum of the counts; see `KindDecoder.decode`."""
        window = sum_of(counts)
        levels = question.options
        options = DiscoverOptions(
            question.crowd, alpha=levels.alpha, level=levels.level, repeats=levels.repeats
        )
        return discovery_result(discover(window, options, question.progress))

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """Return the strings, each with a checkbox to keep it if the reader is allowed to."""
        content = stored.json()
        rows = [(record["id"], row_of(FoundString, record)) for record in content["found"]]
        listed = [{"id": name, "string": shown_string(row), "role": role(row), "row": row}
                 for name, row in rows]  # fmt: skip
        view = {
            "found": content,
            "table": page_of(listed, "string", replace(query, sort="", all=False)),
            "level": f"{100 * content['options']['level']:g} %",
            "alpha": f"{100 * content['options']['alpha']:g} %",
            "keep": f"{stored.address}/keep" if stored.own else "",
        }
        lead = (
            f"Strings detected without a list in {count(content['num_reports'])} randomized "
            f"reports, {days(content['first_day'], content['last_day'])}"
        )
        return PageParts("result_discover.html.j2", view, lead)


KIND = Discoveries()


def discovery_result(discovery: Discovery) -> Result:
    """Return the result of a discovery. The summary has no strings; results.json has them raw."""
    options, sentences = discovery.options, list(statement(discovery))
    names = ("num_tested", "num_below_crowd", "half_found", "most_found", "half_by_noise")
    counts = {name: getattr(discovery, name) for name in names}
    content = {
        **discovery.described(),
        **counts,
        "statement": sentences,
        "options": asdict(options),
        "warning": "strings are text that devices chose: a person must read them before they are "
        "published",
        "found": [{"id": string_id(row)} | asdict(row) for row in discovery.found],
    }
    summary = {
        "num_reports": discovery.num_reports,
        "num_found": len(discovery.found),
        **{name: counts[name] for name in names[:3]},
        "statement": sentences,
        "headline": f"{len(discovery.found):,} strings found",
        "warnings": [],
    }
    rows = [
        (string_id(row), shown_string(row), row.estimate, row.std_error, row.low, row.high,
         row.p_adjusted, "yes" if row.whole else "no", row.declared,
         "" if row.whole else BEGINNING)
        for row in discovery.found
    ]  # fmt: skip
    return Result(
        content,
        summary,
        (STRINGS.of_rows(rows),),
        manifest=manifest_of(discovery, options, crowd=options.crowd),
        notes=(*sentences, *([REVIEW] if discovery.found else [])),
    )


def string_id(row: FoundString) -> str:
    """Return the id of a detected string or prefix in a reviewed table: 12 hexadecimal digits."""
    return sha256(f"{row.whole}:{row.code}:{row.string}".encode()).hexdigest()[:12]


def kept_strings(content: bytes, ids: Iterable[str]) -> list[str]:
    """Return the strings with these ids in results.json that fit a list: whole, and on one line."""
    chosen = set(ids)
    rows = [row_of(FoundString, record) for record in json.loads(content).get("found", ())]
    return [
        row.string
        for row in rows
        if string_id(row) in chosen and row.whole and row.string.splitlines() == [row.string]
    ]


def approved_strings(directory: str | Path) -> list[str]:
    """Return the strings of discovered.csv for which a person wrote `yes`, in order.

    Raises CandidatesError if the files do not belong together, no string is approved, or an
    approved one is not a whole line."""
    folder = Path(directory)
    with naming(folder, CandidatesError, "write it again with rappor discover -o DIR"):
        if not (folder / "discovered.csv").is_file():
            raise DecodeError("it has no discovered.csv, so it is not a result of rappor discover")
        document = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        rows = list(read_table(folder / "discovered.csv", ["id", "publish"]))
        try:
            strings = {row["id"]: (str(row["string"]), row["whole"]) for row in document["found"]}
        except (KeyError, TypeError):
            raise DecodeError(f"{RESULTS} does not contain the strings that were found") from None
        approved = []
        for row in rows:
            name, decision = row.cells["id"], row.cells["publish"].strip().casefold()
            if decision not in ("yes", "no", "", BEGINNING):
                raise DecodeError(f"publish = {ascii(decision)[:40]} is neither yes nor no")
            if name not in strings:
                raise DecodeError(f"id {ascii(name)[:40]} is not one of {RESULTS}")
            if decision == "yes":
                approved.append(strings[name])
        if not approved:
            raise DecodeError("no row of discovered.csv has publish = yes; read the strings first")
        for string, whole in approved:
            if not whole or string.splitlines() != [string]:
                why = "not a single line" if whole else "only the beginning of a string"
                raise DecodeError(f"{ascii(string)[:60]} is {why}, and fits no candidate file")
    return [string for string, _ in approved]


def shown_string(row: FoundString) -> str:
    """Return a detected string that is safe to show: escaped, and truncated at 80 characters.

    Bytes of a truncated character are written like `\\xd8`, so that different rows look different.
    """
    rest = "".join(f"\\x{byte:02x}" for byte in bytes.fromhex(row.rest))
    text = visible(row.string.replace("\\", "\\\\")) + rest
    if len(text) > MAX_SHOWN or not row.whole:
        text = f"{text[:MAX_SHOWN]}..."
    return text


def role(row: FoundString) -> str:
    """Return a remark on a string that the metric itself sends, or that is only a prefix."""
    parts = [f"{row.declared} of the metric"] * bool(row.declared) + [BEGINNING] * (not row.whole)
    return f" ({', '.join(parts)})" if parts else ""


def statement(discovery: Discovery) -> Iterator[str]:
    """Yield sentences on the named strings, the detectable shares, and rows with prefixes."""
    below, number = discovery.num_below_crowd, len(discovery.found)
    crowd, reports = discovery.options.crowd, counted(discovery.num_reports, "report")
    if not number and not below:
        yield "No string is distinguishable from chance."
    else:
        are = "is" if number == 1 else "are"
        named = f"{counted(number, 'string')} {are} named." if number else "No string is named."
        more = f"{below:,} more" if number else f"{below:,}"
        are = "is" if number and below == 1 else "are"
        rest = f"distinguishable from chance, but fewer than {counted(crowd, 'report')} have each."
        yield f"{named} {more} {are} {rest}" if below else named
    reach = (
        f"About half of the strings with {percent(discovery.half_found)} of the {reports} are "
        f"named, and nearly all with {percent(discovery.most_found)}"
    )
    if crowd > discovery.num_reports:
        yield f"No string can be named: there are {reports}, fewer than the required {crowd:,}."
    elif discovery.half_by_noise >= discovery.half_found:
        yield f"{reach}."
    else:
        yield (
            f"{reach}, because {crowd:,} reports are required; half of those with "
            f"{percent(discovery.half_by_noise)} are distinguishable from chance."
        )
    if some := [row for row in discovery.found if not row.whole]:
        are, fit = ("is", "fits") if len(some) == 1 else ("are", "fit")
        text = (
            f"{counted(len(some), 'row')} {are} only a beginning, which several strings may "
            f"share, and {fit} no list of candidates."
        )
        if not all(row.rest == "" and row.string.isascii() for row in some):
            text += (
                " Characters outside ASCII are long in this code: train one on a public list of "
                "such strings (rappor metrics train-code)."
            )
        yield text
