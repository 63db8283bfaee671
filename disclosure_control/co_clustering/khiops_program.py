"""What runs in the environment of Khiops: pairs in, groups out. It imports nothing of ours.

Usage: python khiops_program.py FOLDER

FOLDER/pairs.txt has two columns, separated by tabs, with a header: the numbers of a row and a part.
FOLDER/groups.json is written: for each of both, a list of groups, each a list of numbers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

DICTIONARY = "Dictionary Pairs\n{\n\tCategorical row;\n\tCategorical part;\n};\n"


def main(folder: Path) -> None:
    """Co-cluster the pairs of a folder."""
    from khiops import core

    dictionary = folder / "pairs.kdic"
    dictionary.write_text(DICTIONARY, encoding="utf-8")
    report = core.train_coclustering(
        str(dictionary),
        "Pairs",
        str(folder / "pairs.txt"),
        ["row", "part"],
        str(folder / "report.khcj"),
        header_line=True,
        field_separator="\t",
        temp_dir=str(folder),
    )
    found = core.read_coclustering_results_file(report).coclustering_report
    groups = {
        dimension.name: [[int(one.value) for one in part.values] for part in dimension.parts]
        for dimension in found.dimensions
    }
    (folder / "groups.json").write_text(json.dumps(groups), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
