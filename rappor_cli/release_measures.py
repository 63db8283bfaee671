"""`rappor release measure` and `series`: tables that their holder has in clear."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from disclosure.anonymize import specialise_column
from disclosure.errors import TableError
from disclosure.risk import read_columns
from disclosure.rows.comparison import compare, to_csv
from disclosure.series import (
    Charge,
    bound_contributions,
    open_ledger,
    perturb_by_dct_gaussian,
    perturb_by_fourier_laplace,
)
from rappor_cli import options as shared
from rappor_cli.progress import spinner
from rappor_cli.release_build import trees_of
from rappor_cli.text import print_columns
from rappor_core.whole_files import write_whole


def measure(
    original: Annotated[Path, typer.Argument(help="The rows as they were: CSV with a header.")],
    published: Annotated[Path, typer.Argument(help="The rows as they are published, likewise.")],
    columns: Annotated[str, typer.Option(help="Columns to compare, separated by commas.")],
    numbers: Annotated[str, typer.Option(help="Those of them that are numbers.")] = "",
    hierarchy: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=FILE: its tree; what was generalised is spread over its leaves."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of queries, folds and spread values.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A CSV file to write, too.")
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Measure what PUBLISHED keeps of ORIGINAL, and what it tells of its persons.

    Distances, counting queries, rows equal to an original, the origin test, the missing person and
    record linkage: docs/publication.md, "Measures".
    """
    names = columns.split(",")
    trees = trees_of(hierarchy, names)
    before, after = (
        dict(zip(names, read_columns(file, names), strict=True)) for file in (original, published)
    )
    rng = np.random.default_rng(seed)
    for name, tree in trees.items():
        after[name] = specialise_column(after[name], tree, rng)
    numeric = [name for name in numbers.split(",") if name]
    with spinner("measuring"):
        found = compare(before, after, seed=seed, numeric=numeric)
    if output is not None:
        write_whole(output, to_csv(found))
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
        return
    rows = [(one.name, one.column, f"{one.value:.4g}", one.reading) for one in found]
    print_columns(("measure", "column", "value", "reading"), rows)


def series(
    visits: Annotated[Path, typer.Argument(help="CSV, a row an event: who, and in which slot.")],
    slots: Annotated[int, typer.Option(min=1, help="Slots of the series, from 0.")],
    most: Annotated[int, typer.Option(min=1, help="Slots that one person counts in at most.")],
    kept: Annotated[int, typer.Option(min=1, help="Coefficients to keep; not by looking at it.")],
    epsilon: Annotated[float, typer.Option(help="What the series may tell of one, in nats.")],
    ledger: shared.Ledger,
    output: shared.OutputCsv,
    delta: Annotated[
        float, typer.Option(help="Above 0: Gaussian noise on a cosine transform; 0: Laplace.")
    ] = 0.0,
    person: Annotated[str, typer.Option(help="Column of the person.")] = "person",
    slot: Annotated[str, typer.Option(help="Column of the slot, from 0 to --slots - 1.")] = "slot",
) -> None:
    """Publish how many persons were there in each slot, with differential privacy.

    Each person counts in --most slots, drawn at random. The charge is in the ledger before noise is
    drawn.
    """
    who, when = read_columns(visits, [person, slot])
    persons = np.unique(np.array(who), return_inverse=True)[1].ravel()
    at = _whole_numbers(visits, slot, when)
    rng = np.random.default_rng()
    try:
        counts, l2 = bound_contributions(persons, at, slots, most, rng)
    except TableError as error:
        raise TableError(f"{visits}: {error}") from None
    charge = Charge(epsilon, delta)
    if kept > slots:
        raise typer.BadParameter(f"--kept {kept} of {slots} coefficients")
    with open_ledger(ledger) as budget:
        budget.spend(f"series of {slots} slots", charge)
        left = max(budget.limit.epsilon - budget.spent_epsilon, 0.0)
    given = counts.astype(float)
    if delta:
        noisy = perturb_by_dct_gaussian(given, kept, l2, charge, rng)
    else:
        noisy = perturb_by_fourier_laplace(given, kept, l2, epsilon, rng)
    rows = [(place, f"{value:.1f}") for place, value in enumerate(noisy.tolist())]
    write_whole(output, _csv_text(("slot", "persons"), rows))
    print(f"{slots} slots in {output}, epsilon {epsilon:g}; {left:g} left in {ledger}")


def _whole_numbers(file: Path, column: str, values: Sequence[str]) -> np.ndarray:
    try:
        return np.array([int(value) for value in values], dtype=np.int64)
    except (ValueError, OverflowError):
        raise TableError(f"{file}: column {column!r} holds what is no whole number") from None


def _csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
