"""`rappor release synthesize table`, `synthesize decoded`, and `rappor release ledger`."""

from pathlib import Path
from typing import Annotated

import typer

from disclosure.files import check_new_folder, naming, read_columns
from disclosure.release import load_policy, load_signer
from disclosure.rows.decoded import check_size, synthesize_decoded
from disclosure.rows.domain import load_row_domain
from disclosure.rows.private_histogram import Synthesizer, draw_rows, estimate_histogram
from disclosure.rows.publishing import (
    OF_DECODING,
    OF_TABLE,
    ROWS_ARE,
    admit_estimates,
    read_estimates,
    release_of_rows,
    write_rows,
)
from disclosure.series import Charge, make_ledger, open_ledger, read_ledger
from rappor_cli import options as shared
from rappor_cli.options import command_group
from rappor_cli.release_build import day_of_issue, read_earlier
from rappor_cli.text import print_columns
from rappor_core.text import visible

app = command_group(
    "Draw synthetic rows from a decoding, or from a raw table with differential privacy.",
    "rappor release synthesize table table.csv --domain domain.toml --epsilon 1 "
    "--ledger ledger.json -o rows",
)

RowsOption = Annotated[int | None, typer.Option(min=1, help="Rows per set.")]


@app.command()
def decoded(
    source: Annotated[
        Path, typer.Argument(help="Folder of rappor decode -o (pairs, categories) or density -o.")
    ],
    policy: shared.Policy,
    output: shared.NewFolder,
    sets: Annotated[int, typer.Option(min=2, help="Sets of rows.")] = 20,
    rows: RowsOption = None,
    issued: shared.Issued = None,
    earlier: shared.EarlierReleases = None,
    key: shared.SigningKey = None,
    public_key: shared.PublicKeys = None,
    unsigned_earlier: shared.UnsignedEarlier = False,
) -> None:
    """Draw sets of rows from decoded estimates and their errors, at no additional privacy cost.

    Analyze each set, then combine the results as synthesis.json explains. The folder is a release
    that rappor release verify checks and --earlier of later releases accepts.
    """
    check_new_folder(output, ROWS_ARE)
    rules = load_policy(policy)
    sign, name = load_signer(key)
    before = read_earlier(earlier, public_key, unsigned=unsigned_earlier)
    day = day_of_issue(issued)
    admitted = admit_estimates(read_estimates(source), rules, day)
    release = release_of_rows(admitted, rules, day, before)
    drawn = synthesize_decoded(admitted, num_sets=sets, num_rows=rows)
    size = admitted.num_reports if rows is None else rows
    head = {"kind": "decoded", "sets": sets, "rows": size, "epsilon_spent": 0.0}
    files = write_rows(drawn, head | admitted.described(), OF_DECODING, output, release, sign, name)
    how = "signed" if sign else "not signed"
    print(f"{sets} sets of {size:,} rows in {output}: {len(files)} files, {how}")


@app.command()
def table(
    source: shared.Table,
    domain: Annotated[Path, typer.Option(help="TOML: the possible values of each column.")],
    epsilon: Annotated[float, typer.Option(help="Nats that the rows may reveal about a person.")],
    ledger: shared.Ledger,
    output: shared.NewFolder,
    method: Annotated[Synthesizer, typer.Option("--synthesizer")] = "dpcocgen",
    rows: RowsOption = None,
) -> None:
    """Draw synthetic rows from a raw table, with differential privacy.

    Epsilon is recorded in the ledger before any noise is drawn. --rows is the number of rows to
    write, not the number in the table.
    """
    check_new_folder(output, ROWS_ARE)
    declared = load_row_domain(domain)
    check_size(rows or 1, len(declared.axes))
    names = list(declared.axes)
    values = read_columns(source, names)
    with open_ledger(ledger) as budget:
        with naming(source):
            histogram = estimate_histogram(values, declared, epsilon, budget, method=method)
        rest = max(budget.limit.epsilon - budget.spent_epsilon, 0.0)
    drawn = draw_rows(histogram, declared, rows)
    num_rows = len(drawn[names[0]])
    description = {
        "kind": "table",
        "method": method,
        "columns": names,
        "sets": 1,
        "rows": num_rows,
        "epsilon_spent": epsilon,
        "neighbours": "one row more or less",
    }
    write_rows([drawn], description, OF_TABLE, output)
    print(f"{num_rows:,} rows in {output}, epsilon {epsilon:g}; {rest:g} left in {ledger}")


def ledger(
    file: Annotated[Path, typer.Argument(help="The ledger of a data set, JSON.")],
    epsilon: Annotated[float | None, typer.Option(help="Create a ledger with this limit.")] = None,
    delta: Annotated[float, typer.Option(help="Total delta limit of a new ledger.")] = 0.0,
) -> None:
    """Show the epsilon spent on a data set, or create its ledger with --epsilon."""
    if epsilon is not None:
        make_ledger(file, Charge(epsilon, delta))
    content = read_ledger(file)
    rows = [
        (visible(purpose), f"{charge.epsilon:g}", f"{charge.delta:g}")
        for purpose, charge in content.entries
    ]
    rows.append(("spent", f"{content.spent_epsilon:g}", f"{content.spent_delta:g}"))
    rows.append(("limit", f"{content.limit.epsilon:g}", f"{content.limit.delta:g}"))
    print_columns(("charge", "epsilon", "delta"), rows)
