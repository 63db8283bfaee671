"""The files of a co-clustering, in a folder of their own."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from disclosure.co_clustering.grid import CoClustering, GroupGrid
from disclosure.co_clustering.hierarchies import LearntHierarchies
from disclosure.co_clustering.page import render_page
from disclosure.folders import new_folder
from rappor_core.whole_files import replacing

VERSION = 1  # of grid.json


def write_co_clustering(
    model: CoClustering,
    grid: GroupGrid,
    learnt: LearntHierarchies,
    folder: Path,
    published: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Write a co-clustering into a folder that does not exist yet.

    `recoded.csv` (every row, as labels of parts), `hierarchies.json` (for the k-anonymiser),
    `grid.json`, `index.html`, and `published.csv` where there is something to publish.

    Returns: the names of the files.
    Raises: ReleaseError: the folder exists, or cannot be written.
    """
    with new_folder(folder, "a co-clustering is") as part:
        write_table(model.recoded.to_table(), part / "recoded.csv")
        learnt.save(part / "hierarchies.json")
        _write_text(part / "grid.json", json.dumps(grid_to_dict(model, grid)) + "\n")
        _write_text(part / "index.html", render_page(model, grid, learnt))
        if published is not None:
            write_table(published, part / "published.csv")
    return sorted(path.name for path in folder.iterdir())


def grid_to_dict(model: CoClustering, grid: GroupGrid) -> dict[str, Any]:
    """A grid as plain values: rows of each cluster, parts of each group, pairs of each cell."""
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


def write_table(table: Mapping[str, Sequence[str]], file: Path) -> None:
    """Write columns as a CSV file with a header; the file appears when it is complete. Raises
    OSError."""
    with replacing(file) as part, part.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def _write_text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
