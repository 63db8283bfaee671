"""Sentences on what a discovery found and could find, for terminal, files and pages."""

from __future__ import annotations

from decoder.discovery.discovery import Discovery, FoundString
from decoder.tables.format import percent
from rappor_core.text import counted, visible

LONGEST_SHOWN = 80
BEGINNING = "only its beginning"


def shown_string(row: FoundString) -> str:
    """A found string made safe to show: escaped, cut at 80 characters with dots.

    Bytes of a character that the code cut are written `\xd8`, so that rows which differ look so.
    """
    rest = "".join(f"\\x{byte:02x}" for byte in bytes.fromhex(row.rest))
    text = visible(row.string.replace("\\", "\\\\")) + rest
    if len(text) > LONGEST_SHOWN or not row.whole:
        text = f"{text[:LONGEST_SHOWN]}..."
    return text


def role(row: FoundString) -> str:
    """A remark in brackets for a row that is the metric's fallback or no-data value, or only a
    beginning; "" for others."""
    parts = [f"{row.declared} of the metric"] * bool(row.declared) + [BEGINNING] * (not row.whole)
    return f" ({', '.join(parts)})" if parts else ""


def statement(discovery: Discovery) -> tuple[str, ...]:
    """Sentences: how many strings are named, which shares can be found, which rows are only
    beginnings."""
    sentences = (_named(discovery), _reach(discovery), _beginnings(discovery))
    return tuple(sentence for sentence in sentences if sentence)


def _named(discovery: Discovery) -> str:
    below, found = discovery.num_below_crowd, len(discovery.found)
    if not found and not below:
        return "No string is told from chance."
    named = f"{counted(found, 'string')} {'is' if found == 1 else 'are'} named."
    if not below:
        return named
    more = f"{below:,} more {'is' if below == 1 else 'are'}" if found else f"{below:,} are"
    crowd = counted(discovery.options.crowd, "report")
    what = f"{more} told from chance, but fewer than {crowd} hold each."
    return f"{named if found else 'No string is named.'} {what}"


def _reach(discovery: Discovery) -> str:
    crowd, reports = discovery.options.crowd, counted(discovery.num_reports, "report")
    if crowd > discovery.num_reports:
        return f"No string can be named: there are {reports}, and it takes a crowd of {crowd:,}."
    reach = (
        f"About half of the strings with {percent(discovery.half_found)} of the {reports} are "
        f"named, and nearly all with {percent(discovery.most_found)}"
    )
    if discovery.half_by_noise >= discovery.half_found:
        return f"{reach}."
    return (
        f"{reach}: the crowd of {crowd:,} decides; half of those with "
        f"{percent(discovery.half_by_noise)} are told from chance."
    )


def _beginnings(discovery: Discovery) -> str:
    some = [row for row in discovery.found if not row.whole]
    if not some:
        return ""
    one = len(some) == 1
    text = (
        f"{counted(len(some), 'row')} {'is' if one else 'are'} only the beginning of a string, "
        f"for all that begin so, and {'fits' if one else 'fit'} no list of candidates."
    )
    if all(row.rest == "" and row.string.isascii() for row in some):
        return text
    return (
        f"{text} Characters outside ASCII are long in this code: train one on a public list of "
        "such strings (rappor metrics train-code)."
    )
