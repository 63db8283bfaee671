"""Files of a discovery: discovered.csv, discovered.json, discovery.html.

The strings are text that devices chose. In tables and pages they are escaped, cut and isolated;
`discovered.json` alone holds them as they are. None is a candidate of another metric before a
person has read it and written `yes` in the column `publish` (`approved_strings`).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from decoder.discovery.discovery import Discovery, FoundString
from decoder.errors import CandidatesError, DecodeError
from decoder.files import naming, write_files
from decoder.output.discovery_text import BEGINNING, shown_string, statement
from decoder.output.discovery_view import discovery_view
from decoder.output.jinja import page_template
from decoder.output.tables import TableQuery
from decoder.progress import Progress, silent
from rappor_core.text import safe_cell

COLUMNS = (
    "id",
    "string",
    "estimate",
    "std_error",
    "low",
    "high",
    "p_adjusted",
    "whole",
    "declared",
    "publish",
)
CSV_NAME, JSON_NAME, HTML_NAME = "discovered.csv", "discovered.json", "discovery.html"
_DISCOVERED_VERSION = 1


def string_id(row: FoundString) -> str:
    """The id of a found string, or beginning, in a reviewed table: 12 hexadecimal digits."""
    return sha256(f"{row.whole}:{row.code}:{row.string}".encode()).hexdigest()[:12]


def write_discovery(
    discovery: Discovery, directory: str | Path, progress: Progress = silent
) -> tuple[Path, ...]:
    """Write all files into a directory, made if needed; returns their paths. Raises OutputError."""
    files: dict[str, Callable[[Path], object]] = {
        CSV_NAME: partial(_write_csv, discovery),
        JSON_NAME: lambda path: path.write_text(discovery_json(discovery), encoding="ascii"),
        HTML_NAME: lambda path: path.write_text(render_discovery(discovery), encoding="utf-8"),
    }
    return write_files(directory, files, progress)


def _write_csv(discovery: Discovery, path: Path) -> None:
    """One string a row; `publish` is for the person who reads them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in discovery.found:
            text = shown_string(row)
            numbers = (row.estimate, row.std_error, row.low, row.high, row.p_adjusted)
            cells = string_id(row), safe_cell(text)
            writer.writerow(
                (*cells, *map(repr, numbers), _word(row.whole), row.declared, _review(row))
            )


def _review(row: FoundString) -> str:
    """What stands in `publish` before a person has decided."""
    return "" if row.whole else BEGINNING


def _word(flag: bool) -> str:
    return "yes" if flag else "no"


def discovery_results(discovery: Discovery) -> dict[str, Any]:
    """The contents of discovered.json as plain values, with unescaped strings."""
    return {
        "version": _DISCOVERED_VERSION,
        "metric": discovery.metric,
        "params_id": discovery.params_id,
        "first_day": discovery.first_day and discovery.first_day.isoformat(),
        "last_day": discovery.last_day and discovery.last_day.isoformat(),
        "num_reports": discovery.num_reports,
        "num_tested": discovery.num_tested,
        "num_below_crowd": discovery.num_below_crowd,
        "half_found": discovery.half_found,
        "most_found": discovery.most_found,
        "half_by_noise": discovery.half_by_noise,
        "statement": list(statement(discovery)),
        "options": asdict(discovery.options),
        "warning": "strings are text that devices chose: a person must read them before they are "
        "published",
        "found": [{"id": string_id(row)} | asdict(row) for row in discovery.found],
    }


def discovery_json(discovery: Discovery) -> str:
    """`discovery_results` as JSON in ASCII: what could steer a terminal is escaped."""
    text = json.dumps(discovery_results(discovery), indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f") + "\n"


def render_discovery(discovery: Discovery) -> str:
    """Render `discovery.html`, a page that loads nothing."""
    return page_template("discovery.html.j2").render(
        description=discovery.definition.get("description"),
        query=None,
        own=False,
        **discovery_view(discovery_results(discovery), TableQuery(rows=len(discovery.found) or 1)),
    )


def approved_strings(directory: str | Path) -> list[str]:
    """The whole strings of a folder's discovered.csv for which a person wrote `yes`, in order.

    Raises CandidatesError where the files do not belong together, or no string is approved.
    """
    folder = Path(directory)
    with naming(folder, CandidatesError, "write it again with rappor discover -o DIR"):
        strings, rows = _reviewed(folder)
        approved = [strings[row["id"]] for row in rows if _publish(row, strings)]
        if not approved:
            raise DecodeError(f"no row of {CSV_NAME} says yes in its column publish; read them")
        for string, whole in approved:
            if not whole or string.splitlines() != [string]:
                why = "no single line" if whole else "only the beginning of a string"
                raise DecodeError(f"{ascii(string)[:60]} is {why}, and fits no candidate file")
    return [string for string, _ in approved]


def _reviewed(folder: Path) -> tuple[dict[str, tuple[str, bool]], list[dict[str, str]]]:
    """The strings by id as they are, and the rows that a person has read."""
    document = json.loads((folder / JSON_NAME).read_text(encoding="ascii"))
    with (folder / CSV_NAME).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        strings = {row["id"]: (str(row["string"]), bool(row["whole"])) for row in document["found"]}
    except (KeyError, TypeError):
        raise DecodeError(f"{JSON_NAME} lacks what was found") from None
    if any(not isinstance(row.get(name), str) for row in rows for name in ("id", "publish")):
        raise DecodeError(f"{CSV_NAME} has a row without id or publish")
    return strings, rows


def _publish(row: dict[str, str], strings: dict[str, tuple[str, bool]]) -> bool:
    """Whether a person approved a row. Raises DecodeError for another word or an unknown id."""
    decision = row["publish"].strip().casefold()
    if decision not in ("yes", "no", "", BEGINNING):
        raise DecodeError(f"publish = {ascii(decision)[:40]} is neither yes nor no")
    if row["id"] not in strings:
        raise DecodeError(f"id {ascii(row['id'])[:40]} is not one of {JSON_NAME}")
    return decision == "yes"
