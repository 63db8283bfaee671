"""Synthetic rows of Adult at equal epsilon: ours, and AIM and PrivBayes of another library.

Usage: python benchmarks/synthetic_rows.py [--seeds 3] [--rivals PYTHON] [--keep FOLDER]
Needs ../shared/data/adult.csv.xz. PYTHON is of an environment with dpmm (pip install dpmm), which
takes minutes a fit; FOLDER keeps its rows, so that a second run need not fit again. AIM fits its
model anew in every round, from where it was: 200 steps each, where the library takes 1,000.

Age (10 equal bins), workclass, education, relationship, sex: 17,280 combinations. 80 % of the rows
are used, the rest is what predictions are tested on. The number of rows is taken as public, for
all. Queries are 100 of 2 columns and 100 of 5, with the error's denominator at least .1 % of rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from disclosure_control.mechanisms import BudgetLedger, Charge
from disclosure_control.synthetic_rows import (
    Baseline,
    Categories,
    DPCocGen,
    EqualBins,
    KdTree,
    RowDomain,
    draw_rows,
    estimate_histogram,
)
from disclosure_control.utility import (
    column_shares,
    counting_query_error,
    hellinger,
    predict_column,
)
from tests.publication.adult import adult

NAMES = ("age", "workclass", "education", "relationship", "sex")
EPSILONS = (0.01, 0.1, 0.5, 1.0)
DELTA = 1e-5  # of AIM; ours and PrivBayes have none
TARGETS = ("sex", "relationship")
Rows = dict[str, list[str]]
METHODS = {
    "Baseline, clipped (thesis)": Baseline("clip"),
    "Baseline": Baseline(),
    "DPCocGen, even and clipped (thesis)": DPCocGen(KdTree(), 0.0, 0.5, "clip"),
    "DPCocGen": DPCocGen(),
}
RIVALS: dict[str, dict[str, int]] = {"PrivBayes": {}, "AIM": {"n_iters": 200}}


@dataclass(frozen=True)
class Given:
    """The rows in use, those for tests, as bins, and their public domain."""

    domain: RowDomain
    used: Rows
    tested: Rows

    @property
    def num_rows(self) -> int:
        """Rows in use."""
        return len(self.used["sex"])

    def measures(self, rows: Rows) -> list[float]:
        """Hellinger, errors of queries of 2 and of 5 columns, AUC of each target."""
        joint = hellinger(*column_shares(self.used, rows, NAMES))
        errors = [
            counting_query_error(
                self.used, rows, np.random.default_rng(5), numeric=["age"], num_columns=columns
            )
            for columns in (2, 5)
        ]
        return [joint, *errors, *(self.auc(rows, target) for target in TARGETS)]

    def auc(self, rows: Rows, target: str) -> float:
        """Of a naive Bayes trained on rows and tested on real ones."""
        return predict_column(rows, self.tested, target).auc


def main() -> None:
    """Print a line for each epsilon and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rivals", type=Path, help="Python of an environment with dpmm")
    parser.add_argument("--keep", type=Path, help="folder for the rows of rivals")
    given = parser.parse_args()
    ground = split(adult(40_000))
    print("| epsilon | method | Hellinger | 2 columns | 5 columns | AUC sex | AUC relationship |")
    print("|---|---|---|---|---|---|---|")
    line(None, "the rows themselves", [ground.measures(ground.used)])
    for epsilon in EPSILONS:
        for name, method in METHODS.items():
            sets = ours(ground, method, epsilon, given.seeds)
            line(epsilon, name, [ground.measures(rows) for rows in sets])
        for name in RIVALS if given.rivals or given.keep else ():
            fits = (
                rival(ground, name, epsilon, seed, given.rivals, given.keep)
                for seed in range(given.seeds)
            )
            sets = [ground.measures(rows) for rows in fits if rows is not None]
            if sets:
                line(epsilon, name, sets)


def split(table: Rows) -> Given:
    """80 % to use, the same in every run."""
    domain = RowDomain(
        {"age": EqualBins(17, 90, 10)}
        | {name: Categories(tuple(sorted(set(table[name])))) for name in NAMES[1:]}
    )
    used = np.random.default_rng(0).random(len(table["age"])) < 0.8
    ages = domain.axes["age"].codes(table["age"]).astype(str)
    columns = {name: np.array(table[name]) for name in NAMES} | {"age": ages}
    parts = [{name: columns[name][rows].tolist() for name in NAMES} for rows in (used, ~used)]
    return Given(binned(domain), *parts)


def binned(domain: RowDomain) -> RowDomain:
    """The same with the number of each bin for its age."""
    bins = tuple(str(number) for number in range(domain.axes["age"].size))
    return RowDomain({**domain.axes, "age": Categories(bins)})


def ours(ground: Given, method: Baseline | DPCocGen, epsilon: float, seeds: int) -> Iterator[Rows]:
    """A set of rows for each seed."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        found = estimate_histogram(
            ground.used,
            ground.domain,
            epsilon,
            BudgetLedger(Charge(epsilon)),
            method=method,
            num_rows=ground.num_rows,
            rng=rng,
        )
        yield draw_rows(found, ground.domain, ground.num_rows, rng)


def rival(
    ground: Given, method: str, epsilon: float, seed: int, python: Path | None, keep: Path | None
) -> Rows | None:
    """One set of rows, of codes on the way; None where it is not kept and cannot be made."""
    kept = keep / f"{method}-{epsilon:g}-{seed}.json" if keep else None
    if kept is not None and kept.is_file():
        text = kept.read_text()
    elif python is None:
        return None
    else:
        axes = ground.domain.axes.items()
        asked = {
            "columns": {name: axis.codes(ground.used[name]).tolist() for name, axis in axes},
            "sizes": {name: axis.size for name, axis in axes},
            "method": method,
            "epsilon": epsilon,
            "delta": DELTA,
            "seed": seed,
            "options": RIVALS[method],
        }
        program = Path(__file__).with_name("_synthesis_rivals.py")
        text = subprocess.run(
            [python, program], input=json.dumps(asked), capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
        if kept is not None:
            kept.write_text(text)
    codes = json.loads(text)
    rng = np.random.default_rng(seed)
    return {
        name: axis.draw(np.array(codes[name]), rng) for name, axis in ground.domain.axes.items()
    }


def line(epsilon: float | None, name: str, measured: list[list[float]]) -> None:
    """One line: means over the sets."""
    means = " | ".join(f"{value:.3f}" for value in np.mean(measured, axis=0))
    print(f"| {epsilon or ''} | {name} | {means} |", flush=True)


if __name__ == "__main__":
    main()
