"""`rappor release`: check, build and verify publications."""

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from disclosure.anonymize import specialize_column
from disclosure.errors import TableError
from disclosure.files import naming, read_columns, write_csv
from disclosure.risk import Method, assess_risk, load_domain
from disclosure.rows.comparison import compare
from disclosure.series import (
    Charge,
    bound_contributions,
    open_ledger,
    perturb_by_fourier_laplace,
)
from rappor_cli import options as shared
from rappor_cli.options import command_group
from rappor_cli.progress import spinner
from rappor_cli.release_build import audit, build, diff, keygen, trees_of, verify
from rappor_cli.release_clusters import anonymize_table, co_cluster_table
from rappor_cli.release_rows import app as rows_app
from rappor_cli.release_rows import ledger
from rappor_cli.text import print_columns
from rappor_core.whole_files import replacing

app = command_group(
    "Check, build and verify publications.",
    "rappor release risk table.csv --columns plan,age --domain domain.toml",
)
app.command()(build)
app.command()(audit)
app.command()(diff)
app.command()(verify)
app.command()(keygen)
app.command("co-cluster")(co_cluster_table)
app.command("anonymize")(anonymize_table)
app.command()(ledger)
app.add_typer(rows_app, name="synthesize")


@app.command()
def risk(
    table: shared.Table,
    columns: Annotated[str, typer.Option(help="Identifying columns, separated by commas.")],
    domain: Annotated[Path, typer.Option(help="domain.toml: the possible values of each column.")],
    method: Annotated[Method, typer.Option(help="How missing values count.")] = "pesa",
    k: Annotated[int, typer.Option(min=1, help="Exit code 1 if a key has fewer rows.")] = 1,
    as_json: shared.Json = False,
) -> None:
    """Count, for each row of TABLE, the rows that may share its key, including missing values."""
    names = columns.split(",")
    declared = load_domain(domain).select(names)
    report = assess_risk(read_columns(table, names), declared, method)
    below = len(report.rows_below(k))
    if as_json:
        content = {"frequencies": report.frequencies.tolist(), "minimum": report.minimum}
        print(json.dumps(content))
    else:
        print(
            f"{len(report.frequencies)} rows, {method}: a key has {report.minimum} rows or more; "
            f"{below} rows have a key of fewer than {k}"
        )
    if below:
        raise typer.Exit(1)


@app.command()
def measure(
    original: Annotated[Path, typer.Argument(help="The original rows: CSV with a header.")],
    published: Annotated[Path, typer.Argument(help="The published rows: CSV with a header.")],
    columns: Annotated[str, typer.Option(help="Columns to compare, separated by commas.")],
    numbers: Annotated[str, typer.Option(help="Which of these columns are numeric.")] = "",
    hierarchy: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=FILE: its tree; generalized values are spread over its leaves."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of queries, folds and spread values.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="An extra CSV file.")
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Measure how much of ORIGINAL remains in PUBLISHED, and what it reveals about individuals.

    The measures are distances, counting queries, rows equal to an original, the origin test, the
    missing person and record linkage: docs/publication.md, "Measures".
    """
    names = columns.split(",")
    trees = trees_of(hierarchy, names)
    before, after = read_columns(original, names), read_columns(published, names)
    rng = np.random.default_rng(seed)
    for name, tree in trees.items():
        after[name] = specialize_column(after[name], tree, rng)
    numeric = [name for name in numbers.split(",") if name]
    with spinner("measuring"):
        measures = compare(before, after, seed=seed, numeric=numeric)
    if output is not None:
        header = ("measure", "column", "value", "reading")
        with replacing(output) as part:
            write_csv(part, header, map(astuple, measures))
    if as_json:
        print(json.dumps([asdict(item) for item in measures]))
        return
    rows = [(item.name, item.column, f"{item.value:.4g}", item.reading) for item in measures]
    print_columns(("measure", "column", "value", "reading"), rows)


@app.command()
def series(
    visits: Annotated[Path, typer.Argument(help="CSV, one row per event: person and slot.")],
    slots: Annotated[int, typer.Option(min=1, help="Slots of the series, from 0.")],
    most: Annotated[int, typer.Option(min=1, help="Maximum number of slots per person.")],
    kept: Annotated[int, typer.Option(min=1, help="Coefficients to keep; choose them first.")],
    epsilon: Annotated[float, typer.Option(help="Nats that the series may reveal about a person.")],
    ledger: shared.Ledger,
    output: shared.OutputCsv,
    person: Annotated[str, typer.Option(help="Column that identifies the person.")] = "person",
    slot: Annotated[str, typer.Option(help="Column of the slot, from 0 to --slots - 1.")] = "slot",
) -> None:
    """Publish how many people were present in each slot, with differential privacy.

    Each person counts in at most --most slots, drawn at random. The charge is recorded in the
    ledger before noise is drawn.
    """
    events = read_columns(visits, [person, slot])
    persons = np.unique(np.array(events[person]), return_inverse=True)[1].ravel()
    at = _whole_numbers(visits, slot, events[slot])
    rng = np.random.default_rng()
    with naming(visits):
        counts, l2 = bound_contributions(persons, at, slots, most, rng)
    charge = Charge(epsilon)
    if kept > slots:
        raise typer.BadParameter(f"--kept {kept} of {slots} coefficients")
    with open_ledger(ledger) as budget:
        budget.spend(f"series of {slots} slots", charge)
        rest = max(budget.limit.epsilon - budget.spent_epsilon, 0.0)
    noisy = perturb_by_fourier_laplace(counts.astype(float), kept, l2, epsilon, rng)
    rows = [(place, f"{value:.1f}") for place, value in enumerate(noisy.tolist())]
    with replacing(output) as part:
        write_csv(part, ("slot", "persons"), rows)
    print(f"{slots} slots in {output}, epsilon {epsilon:g}; {rest:g} left in {ledger}")


def _whole_numbers(file: Path, column: str, values: Sequence[str]) -> np.ndarray:
    try:
        return np.array([int(value) for value in values], dtype=np.int64)
    except (ValueError, OverflowError):
        raise TableError(f"{file}: column {column!r} must contain whole numbers") from None
