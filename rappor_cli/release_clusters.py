"""`rappor release co-cluster` and `anonymize`, for tables that you have as raw data."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from disclosure.anonymize import Anonymized, Columns, DiversityRule, anonymize, class_diversity
from disclosure.co_clustering import (
    CoClustering,
    Form,
    GroupGrid,
    LearntHierarchies,
    Recoded,
    co_cluster,
    learn_hierarchies,
    merge_small_clusters,
    merge_until_diverse,
    recode,
)
from disclosure.co_clustering import (
    publish as publish_clusters,
)
from disclosure.co_clustering.files import write_co_clustering
from disclosure.errors import ReleaseError
from disclosure.files import naming, read_columns, sorted_rows, write_csv
from rappor_cli import options as shared
from rappor_cli.progress import spinner
from rappor_cli.release_build import name_and_value, trees_of
from rappor_core.whole_files import replacing

LEARNT = "learnt"
ColumnsOption = Annotated[str, typer.Option(help="Columns to use, separated by commas.")]
NumbersOption = Annotated[str, typer.Option(help="Numeric columns, to be split into intervals.")]
IntervalsOption = Annotated[
    int, typer.Option(min=2, help="Intervals per numeric column, of about equal frequency.")
]
SeedOption = Annotated[
    int, typer.Option(min=0, help="Seed of the first clusters; the same seed repeats the grid.")
]
StartsOption = Annotated[
    int, typer.Option(min=1, help="Attempts from different first clusters; the best one counts.")
]


def co_cluster_table(
    table: shared.Table,
    columns: ColumnsOption,
    output: shared.NewFolder,
    numbers: NumbersOption = "",
    intervals: IntervalsOption = 10,
    k: Annotated[
        int | None, typer.Option(min=2, help="Minimum number of rows in each cluster of the grid.")
    ] = None,
    floor: Annotated[
        int | None,
        typer.Option(min=1, help="Minimum number of rows of a named value; default: --k."),
    ] = None,
    publish: Annotated[
        Form, typer.Option(help="The table to build from the clusters; needs --k.")
    ] = Form.NOTHING,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            help="COLUMN=MIN:MAX: synth draws numbers within its intervals.",
        ),
    ] = None,
    sensitive: Annotated[str, typer.Option(help="Column of --distinct, --closeness.")] = "",
    distinct: Annotated[int, typer.Option(min=1, help="Minimum parts per cluster.")] = 1,
    closeness: Annotated[
        float, typer.Option(min=0, max=1, help="Maximum total variation from TABLE per cluster.")
    ] = 1.0,
    seed: SeedOption = 0,
    starts: StartsOption = 1,
) -> None:
    """Group the rows of TABLE and the values of its columns by similarity.

    The command writes the recoded table, learned hierarchies and a page. Values with fewer rows
    than --floor become one value, "other values". Publish only published.csv. The result has no
    epsilon: docs/publication.md explains what it protects against.
    """
    if publish is not Form.NOTHING and k is None:
        raise typer.BadParameter("--publish needs --k: how many rows share a published cluster")
    if ranges and publish is not Form.SYNTH:
        raise typer.BadParameter("--range needs --publish synth: the others publish intervals")
    if bool(sensitive) != (distinct > 1 or closeness < 1) or (sensitive and k is None):
        raise typer.BadParameter("--sensitive needs --k, and --distinct or --closeness")
    bounds = dict(map(_range, ranges or []))
    recoded = _recode(table, columns, numbers, intervals, floor or k or 1)
    with spinner(f"co-clustering {recoded.num_rows:,} rows"):
        model = co_cluster(recoded, seed=seed, starts=starts)
    with naming(table):
        grid = model.finest if k is None else merge_small_clusters(model, k)
        if sensitive and k is not None:
            grid = merge_until_diverse(model, k, sensitive, DiversityRule(distinct, closeness))
    learnt = learn_hierarchies(model)
    published, misreported = publish_clusters(grid, publish, learnt.trees, bounds)
    files = write_co_clustering(model, grid, learnt, output, published)
    for name, share in misreported.items():
        if share:
            print(f"{name}: {share:.1%} of the rows are published with a value they do not have")
    _print_grid(model, grid)
    print(f"files in {output}: {', '.join(files)}")
    print("recoded.csv, grid.json and index.html reveal the rows: do not publish them")


def anonymize_table(
    table: shared.Table,
    columns: ColumnsOption,
    k: Annotated[int, typer.Option(min=2, help="Minimum rows per published combination.")],
    output: shared.OutputCsv,
    hierarchy: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=FILE: its tree in CSV, a row per value from leaf to root."),
    ] = None,
    hierarchies: Annotated[
        str,
        typer.Option(
            help="Trees of the other columns: 'learnt' from TABLE, or a hierarchies.json of rappor "
            "release co-cluster."
        ),
    ] = "",
    numbers: NumbersOption = "",
    intervals: IntervalsOption = 10,
    keep: Annotated[str, typer.Option(help="Unchanged columns, separated by commas.")] = "",
    suppress: Annotated[
        float, typer.Option(min=0, max=0.999, help="Maximum share of rows to leave out.")
    ] = 0.0,
    sensitive: Annotated[
        str, typer.Option(help="The column of --keep that --distinct and --closeness protect.")
    ] = "",
    distinct: Annotated[
        int, typer.Option(min=1, help="Minimum number of its values per class (l-diversity).")
    ] = 1,
    closeness: Annotated[
        float,
        typer.Option(min=0, max=1, help="Maximum total variation of a class (t-closeness)."),
    ] = 1.0,
    seed: SeedOption = 0,
    starts: StartsOption = 1,
) -> None:
    """Generalize columns of TABLE along trees until every combination appears k times.

    k-anonymity is not differential privacy. Values in fewer than k rows are never named. With
    --hierarchies learnt, the trees are derived from TABLE by co-clustering (2 columns or more), and
    reveal some of it. A tree from --hierarchy is your own, and every node in it may be named. A
    warning counts the classes whose rows all have the same value in a column of --keep.
    """
    names, whole_names = _names(columns), _names(keep)
    if set(names) & set(whole_names):
        raise typer.BadParameter(
            "--keep names columns of --columns: they would be published unchanged"
        )
    if output.exists() and table.exists() and output.samefile(table):
        raise ReleaseError(f"{output} is the table itself, and would be overwritten")
    if sensitive not in whole_names and (sensitive or distinct > 1 or closeness < 1):
        raise typer.BadParameter("--distinct and --closeness need --sensitive, a column of --keep")
    trees = trees_of(hierarchy, names)
    rest = [name for name in names if name not in trees]
    if bool(rest) != bool(hierarchies):
        raise typer.BadParameter(
            f"no tree for {', '.join(rest)}: --hierarchy COLUMN=FILE, or --hierarchies learnt"
            if rest
            else "--hierarchies has nothing to do: every column has a tree of --hierarchy"
        )
    if hierarchies == LEARNT:
        recoded = _recode(table, ",".join(rest), numbers, intervals, k)
        with spinner(f"co-clustering {recoded.num_rows:,} rows"):
            learnt = learn_hierarchies(co_cluster(recoded, seed=seed, starts=starts))
    elif hierarchies:
        learnt = LearntHierarchies.load(Path(hierarchies), rest)
    else:
        learnt = LearntHierarchies({}, {})
    whole = read_columns(table, [*names, *whole_names])
    with naming(table), spinner(f"anonymizing for k = {k}"):
        learnt = learnt.with_floor(whole, k) if rest else learnt
        coded = learnt.recode(whole) if rest else {}
        result = anonymize(
            coded | {name: whole[name] for name in trees},
            Columns({**learnt.trees, **trees}),
            k,
            suppression_budget=suppress,
            sensitive=whole[sensitive] if sensitive else None,
            rule=DiversityRule(distinct, closeness),
        )
    _write_classes(result, names, {name: whole[name] for name in whole_names}, output)


def _write_classes(
    result: Anonymized, names: list[str], whole: Mapping[str, list[str]], output: Path
) -> None:
    """Write the published table, and print how much detail it preserves and what it reveals."""
    published = result.to_table()
    columns = {name: published[name] for name in names} | {**whole}
    rows = sorted_rows(columns, result.published.tolist())
    with replacing(output) as part:
        write_csv(part, rows, zip(*rows.values(), strict=True), guarded=True)
    print(
        f"{int(result.counts.sum()):,} rows in {len(result.counts):,} classes of "
        f"{result.counts.min():,} or more; mean loss {result.leaf_loss:.3f}; "
        f"{result.completeness:.1%} of the rows left out"
    )
    for name, values in whole.items():
        _warn_of_one_value(name, result, values)


def _warn_of_one_value(name: str, result: Anonymized, values: Sequence[str]) -> None:
    """Print a warning if a class has only one value in a column that is published unchanged."""
    remaining = np.array(values)[result.published].tolist()
    alone = class_diversity(result.of_row[result.published], remaining)
    classes = alone.distinct == 1
    if classes.any():
        print(
            f"warning: {name}: all rows of a class say the same in {classes.mean():.1%} of the "
            f"classes ({alone.sizes[classes].sum():,} rows), so who is known to be in it is known "
            f"to say that; --sensitive {name} --distinct 2 asks for more",
            file=sys.stderr,
        )


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _recode(table: Path, columns: str, numbers: str, intervals: int, floor: int) -> Recoded:
    names = _names(columns)
    if set(_names(numbers)) - set(names) or len(names) < 2:
        raise typer.BadParameter("give 2 columns or more, those of --numbers among them")
    whole = read_columns(table, names)
    with naming(table):
        return recode(whole, names, numbers=_names(numbers), intervals=intervals, floor=floor)


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, bounds = name_and_value(text)
    low, colon, high = bounds.partition(":")
    try:
        return name, (float(low), float(high if colon else ""))
    except ValueError:
        raise typer.BadParameter(f"--range {text!r} is not COLUMN=MIN:MAX") from None


def _print_grid(model: CoClustering, grid: GroupGrid) -> None:
    clusters, groups = grid.counts.shape
    finest = " by ".join(f"{length:,}" for length in model.finest.counts.shape)
    print(
        f"{model.recoded.num_rows:,} rows: {finest} clusters and groups of values at the finest; "
        f"here {clusters:,} by {groups:,} with {grid.information:.1%} of its information, the "
        f"smallest cluster of {grid.smallest:,} rows"
    )
