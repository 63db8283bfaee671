"""Time and loss of the k-anonymiser on Adult beside the algorithm of the library anjana.

Both take the same trees, ages in bins of 5, 10 and 20 years, and the same share of rows that may
be left out: none, or 5 %. anjana's algorithm raises a whole column by a level, the one of most
distinct values first. The loss is the mean over rows and columns of
(leaves below - 1) / (leaves - 1), 1 of a row that is left out. The k of what either publishes is
counted by the library pycanon.

Usage: python benchmarks/anonymity.py [--rivals PYTHON] [--rows 30000] [--data FOLDER]
           [--records FILE] [--small]
Needs adult.csv.xz: the training split of Adult (UCI Machine Learning Repository), compressed.
PYTHON is of an environment with anjana, which brings pycanon; one is made where none is given, but
not for the small form, which has no rival then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _run import DATA, Comparison, missing, rival_python, run, seconds

from disclosure_control.k_anonymity import Anonymised, Columns, Hierarchy, anonymise
from tests.publication import adult as adult_data

KS = (2, 3, 5, 10, 50, 461, 1000)
SUPPRESSED = (0.0, 0.05)
Rows = dict[str, list[str]]
Ask = Callable[[Mapping[str, Any]], Any]


def age_tree(ages: Sequence[str]) -> Hierarchy:
    """Ages in bins of 5, 10 and 20 years."""

    def bins(age: str, width: int) -> str:
        low = int(age) // width * width
        return f"{low} to {low + width - 1}"

    chosen = sorted(set(ages))
    return Hierarchy(tuple((a, bins(a, 5), bins(a, 10), bins(a, 20), "any age") for a in chosen))


def compared(table: Rows, columns: Columns, k: int, left_out: float, ask: Ask | None) -> Comparison:
    """One k."""
    found: list[Anonymised] = []
    took = seconds(lambda: found.append(anonymise(table, columns, k, suppression_budget=left_out)))
    (ours,) = found
    name = f"k = {k}, at most {left_out:.0%} of {len(table['age']):,} rows left out"
    told = f"leaf loss {ours.leaf_loss:.3f}, {ours.completeness:.1%} of the rows left out"
    if ask is None:
        return Comparison("", name, "s", (took,), note=f"{told}; the small form has no rival")
    shown = ours.published.tolist()
    check(k, {n: kept(column, shown) for n, column in ours.to_table().items()}, ask)
    task = {"table": table, "levels": levels(columns), "k": k, "suppressed": 100 * left_out}
    theirs = ask({"task": "anonymise", **task})
    check(k, theirs["table"], ask)
    lost = loss(columns, theirs["table"], len(table["age"]))
    missing_rows = 1 - len(theirs["rows"]) / len(table["age"])
    note = f"{told}; anjana {lost:.3f}, {missing_rows:.1%}"
    return Comparison("", name, "s", (took,), "anjana", (theirs["seconds"],), note=note)


def kept(column: Sequence[str], shown: Sequence[bool]) -> list[str]:
    """The rows that are published."""
    return [value for value, flag in zip(column, shown, strict=True) if flag]


def check(k: int, published: Rows, ask: Ask) -> None:
    """Ends the benchmark where the oracle counts fewer than k equal rows."""
    if published and (level := ask({"task": "level", "table": published})["k"]) < k:
        raise SystemExit(f"pycanon counts k = {level}, not {k}")


def levels(columns: Columns) -> dict[str, list[list[str]]]:
    """By column, the node of each leaf at each level."""
    trees = {name: tree for name, tree in columns.kinds.items() if isinstance(tree, Hierarchy)}
    return {
        name: [list(level) for level in zip(*tree.paths, strict=True)]
        for name, tree in trees.items()
    }


def loss(columns: Columns, published: Rows, num_rows: int) -> float:
    """The leaf loss of published nodes; rows that are not there have lost everything."""
    if not published:
        return 1.0
    lost = []
    for name, tree in columns.kinds.items():
        assert isinstance(tree, Hierarchy)
        below = tree.leaves.sum(axis=1)
        lost.append((below[tree.encode(published[name])] - 1) / (len(tree.paths) - 1))
    shown = np.mean(lost, axis=0)
    return float((shown.sum() + num_rows - len(shown)) / num_rows)


@contextmanager
def rivals(python: Path | None) -> Iterator[Ask | None]:
    """A process of the other environment that answers; None where there is no such environment."""
    if python is None:
        yield None
        return
    program = Path(__file__).with_name("_anonymity_rivals.py")
    process = subprocess.Popen(
        [python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(task: Mapping[str, Any]) -> Any:
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise SystemExit(f"{python}: no answer; is anjana installed there?")
        return json.loads(answer)

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait(60)


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """Each k, with no rows left out and with some."""
    adult_data.FILE = chosen.data / "adult.csv.xz"
    told = missing("the k-anonymiser", adult_data.FILE, "adult.csv.xz, the training split of UCI's "
                   "Adult")  # fmt: skip
    if told:
        yield told
        return
    table = adult_data.adult(5_000 if chosen.small else chosen.rows)
    table = {name: table[name] for name in adult_data.COLUMNS}
    columns = Columns(adult_data.adult_columns(table).kinds | {"age": age_tree(table["age"])})
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        python = chosen.rivals
        if not chosen.small:
            python = rival_python(python, Path(scratch), ["anjana"])
        ask = stack.enter_context(rivals(python))
        for left_out in SUPPRESSED:
            for k in KS[1:4] if chosen.small else KS:
                yield compared(table, columns, k, left_out, ask)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rivals", type=Path, help="a Python with anjana, made where not given")


if __name__ == "__main__":
    run(__doc__, measure, options)
