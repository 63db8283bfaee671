"""Co-clustering of Adult: time, grid, and what synthetic rows, COC, COC_HG and MICRO keep.

Usage: python benchmarks/co_clustering.py [--starts 1]
Needs ../shared/data/adult.csv.xz. 80 % of the rows are built from, 20 % tested on; ages in deciles.
Times are of the processor, in seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from disclosure_control.co_clustering import (
    Recoded,
    co_cluster,
    generalise_clusters,
    learn_hierarchies,
    merge_small_clusters,
    micro_aggregate,
    recode,
    synthesise,
)
from disclosure_control.k_anonymity import anonymise
from disclosure_control.utility import (
    column_shares,
    hellinger,
    missing_person_share,
    origin_test,
    predict_column,
)
from tests.publication.adult import adult

NINE = ["sex", "age", "race", "marital_status", "education", "native_country", "workclass",
        "occupation", "income"]  # fmt: skip
KS = (461, 816, 1_042, 8_892)
SETS = 3

Table = dict[str, list[str]]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=1)
    given = parser.parse_args()
    table = adult(40_000)
    number = len(table["sex"])
    order = np.random.default_rng(0).permutation(number)
    cut = number * 8 // 10
    built = {name: [table[name][row] for row in order[:cut]] for name in NINE}
    tested = {name: [table[name][row] for row in order[cut:]] for name in NINE}
    start = time.process_time()
    recoded = recode(built, NINE, numbers=["age"])
    model = co_cluster(recoded, starts=given.starts)
    print(
        f"{recoded.num_rows} rows, {len(NINE)} columns, {recoded.num_parts} parts: "
        f"{model.finest.counts.shape} at {model.cost:.0f} nats (one cell {model.null_cost:.0f}), "
        f"clusters of {model.finest.smallest} to {model.finest.cluster_sizes.max()}: "
        f"{time.process_time() - start:.1f} s"
    )
    real, test = recoded.to_table(), Recoded.encode(tested, recoded.parts).to_table()
    rng = np.random.default_rng(0)
    print("accuracy/AUC of", " ".join(NINE))
    print(f"  {'real rows':<26}", scores([real], test))
    for k in KS:
        grid = merge_small_clusters(model, k)
        drawn = [synthesise(grid, rng) for _ in range(SETS)]
        shape = f"{grid.counts.shape[0]} x {grid.counts.shape[1]}"
        print(f"  k = {k:<6} {shape:<8} {grid.information:<6.2f}", scores(drawn, test), flush=True)
        print(
            f"    origin test {origin_test(real, drawn[0], 0):.2f}, missing person "
            f"{missing_person_share(real, drawn[0]):.2f}, Hellinger {apart(real, drawn[0])}"
        )
        trees = learn_hierarchies(model).trees
        for name, made in {
            "COC": generalise_clusters(grid),
            "COC_HG": generalise_clusters(grid, trees),
            "MICRO": micro_aggregate(grid),
        }.items():
            wrong = np.mean(list(made.misreported.values()))
            print(
                f"    {name:<7} loss {made.leaf_loss:.2f}, misreported {wrong:.2f}, Hellinger "
                f"{apart(real, made.spread(rng))}",
                flush=True,
            )
    learnt = learn_hierarchies(model)
    for k in (5, 50):
        start = time.process_time()
        found = anonymise(real, learnt.columns(), k)
        print(
            f"learnt trees, k = {k}: {len(found.counts)} classes, leaf loss {found.leaf_loss:.3f}: "
            f"{time.process_time() - start:.1f} s"
        )


def scores(tables: list[Table], test: Table) -> str:
    """Mean accuracy and AUC of each column, predicted from the others."""
    found = [[predict_column(one, test, name) for one in tables] for name in NINE]
    means = [np.mean([(p.accuracy, p.auc) for p in one], axis=0) for one in found]
    return " ".join(f"{accuracy:.3f}/{auc:.3f}" for accuracy, auc in means)


def apart(real: Table, published: Table) -> str:
    """Mean Hellinger distance of columns, and of up to 30 sets of two to six columns."""
    rng, means = np.random.default_rng(0), []
    for size in range(1, 7):
        sets = list(combinations(NINE, size))
        chosen = rng.permutation(len(sets))[:30]
        apart = [hellinger(*column_shares(real, published, sets[place])) for place in chosen]
        means.append(f"{np.mean(apart):.3f}")
    return " ".join(means)


if __name__ == "__main__":
    main()
