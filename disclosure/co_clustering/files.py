"""The output files of a co-clustering and its page: grid, groups and trees."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from disclosure.anonymize import Hierarchy
from disclosure.co_clustering.grid import CoClustering, GroupGrid
from disclosure.co_clustering.hierarchies import LearntHierarchies
from disclosure.files import new_folder, page_template, write_csv
from disclosure.typing import Floats

_LEFT, _TOP, _WIDTH, _TALLEST = 60, 16, 960, 24  # sizes in the picture
_FAINTEST = 0.01  # relative to the peak; fainter cells are not drawn
VERSION = 1  # of grid.json


def render_page(model: CoClustering, grid: GroupGrid, learnt: LearntHierarchies) -> str:
    """Return the page as text, with values escaped and long values truncated."""
    return page_template("disclosure.co_clustering", "co_clustering.html.j2").render(
        rows=model.recoded.num_rows,
        columns=list(model.recoded.parts),
        finest=model.finest.counts.shape,
        cost=f"{model.cost:,.1f}",
        null_cost=f"{model.null_cost:,.1f}",
        counts=grid.counts,
        percent=f"{100 * grid.information:.1f} %",
        smallest=grid.smallest,
        groups=_groups(grid),
        picture=_picture(grid),
        trees=[(name, _node(tree, tree.height)) for name, tree in learnt.trees.items()],
    )


def _groups(grid: GroupGrid) -> list[dict[str, Any]]:
    rows = []
    for group, pairs in enumerate(grid.counts.sum(axis=0).tolist()):
        columns: dict[str, list[str]] = {}
        for name, label in grid.parts_in(group):
            columns.setdefault(name, []).append(label)
        values = [(name, ", ".join(labels)) for name, labels in columns.items()]
        rows.append({"pairs": pairs, "by_column": values})
    return rows


def _picture(grid: GroupGrid) -> dict[str, Any]:
    """Return a rectangle for each cell with information."""
    information = _information(grid)
    clusters, groups = information.shape
    width, height = (_WIDTH - _LEFT) / groups, min(_TALLEST, max(6.0, 600 / clusters))
    peak = np.abs(information).max() or 1.0
    cells = [
        {
            "kind": "more" if information[i, j] > 0 else "less",
            "x": round(_LEFT + j * width, 2),
            "y": round(_TOP + i * height, 2),
            "width": round(width, 2),
            "height": round(height, 2),
            "strength": round(float(np.sqrt(abs(information[i, j]) / peak)), 3),
            "title": f"cluster {i + 1}, group {j + 1}: {grid.counts[i, j]:,} pairs",
        }
        for i, j in np.argwhere(np.abs(information) > _FAINTEST * peak).tolist()
    ]
    step = max(1, round(10 / height))
    marks = [
        {"x": _LEFT - 6, "y": round(_TOP + (i + 0.5) * height + 3.5, 2), "anchor": "end",
         "text": f"{grid.cluster_sizes[i]:,}"}
        for i in range(0, clusters, step)
    ]  # fmt: skip
    every = max(1, round(18 / width))
    marks += [
        {"x": round(_LEFT + (j + 0.5) * width, 2), "y": 11, "anchor": "middle", "text": f"{j + 1}"}
        for j in range(0, groups, every)
    ]
    return {
        "cells": cells,
        "marks": marks,
        "left": _LEFT,
        "top": _TOP,
        "width": _WIDTH,
        "height": round(_TOP + clusters * height, 2),
    }


def _information(grid: GroupGrid) -> Floats:
    shares = grid.counts / grid.counts.sum()
    chance = shares.sum(axis=1)[:, None] * shares.sum(axis=0)[None, :]
    ratio = np.where(shares > 0, shares / chance, 1.0)
    information: Floats = np.where(shares > 0, shares * np.log(ratio), -chance)
    return information


def _node(tree: Hierarchy, level: int, under: str | None = None) -> dict[str, Any]:
    """Return the nodes below a node as nested lists, skipping levels that only repeat a label."""
    label = tree.paths[0][-1] if under is None else under
    paths = [path for path in tree.paths if path[level] == label]
    below: list[dict[str, Any]] = []
    if level and {path[0] for path in paths} != {label}:
        inner = dict.fromkeys(path[level - 1] for path in paths)
        if list(inner) == [label]:
            return _node(tree, level - 1, label)
        below = [_node(tree, level - 1, name) for name in inner]
    return {"label": label, "below": below}


def write_co_clustering(
    model: CoClustering,
    grid: GroupGrid,
    learnt: LearntHierarchies,
    folder: Path,
    published: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Write a co-clustering to a new folder and return the names of the files.

    The files are `recoded.csv` (every row, as labels of parts), `hierarchies.json` (for the
    k-anonymizer), `grid.json`, `index.html`, and `published.csv` if there are rows to publish.
    Raises ReleaseError if the folder exists or cannot be written."""
    with new_folder(folder, "a co-clustering is") as part:
        recoded = model.recoded.to_table()
        write_csv(part / "recoded.csv", recoded, zip(*recoded.values(), strict=True))
        learnt.save(part / "hierarchies.json")
        _write_text(part / "grid.json", json.dumps(grid_to_dict(model, grid)) + "\n")
        _write_text(part / "index.html", render_page(model, grid, learnt))
        if published is not None:
            rows = zip(*published.values(), strict=True)
            write_csv(part / "published.csv", published, rows, guarded=True)
    return sorted(path.name for path in folder.iterdir())


def grid_to_dict(model: CoClustering, grid: GroupGrid) -> dict[str, Any]:
    """Return a grid as plain values: the rows per cluster, parts per group and pairs per cell."""
    return {
        "version": VERSION,
        "rows": grid.recoded.num_rows,
        "columns": list(grid.recoded.parts),
        "finest": {"shape": list(model.finest.counts.shape), "cost": model.cost},
        "null_cost": model.null_cost,
        "information": grid.information,
        "clusters": grid.cluster_sizes.tolist(),
        "groups": [grid.parts_in(group) for group in range(grid.counts.shape[1])],
        "counts": grid.counts.tolist(),
    }


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
