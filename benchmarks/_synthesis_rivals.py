"""Synthetic rows by another library (dpmm: AIM, MST, PrivBayes), in an environment of its own.

Run by `benchmarks/synthetic_rows.py --rivals PYTHON`; imports nothing of this project. Reads one
JSON object from standard input: columns of codes, their sizes, method, epsilon, delta, seed, and
options of the method by their names there. Writes columns of codes.
"""

from __future__ import annotations

import json
import sys
import warnings


def main() -> None:
    """Read, fit, draw, write."""
    warnings.simplefilter("ignore")
    import numpy as np
    import pandas as pd
    from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

    given = json.load(sys.stdin)
    methods = {"AIM": AIMPipeline, "MST": MSTPipeline, "PrivBayes": PrivBayesPipeline}
    table = pd.DataFrame(given["columns"])
    pipeline = methods[given["method"]](
        epsilon=given["epsilon"],
        delta=given["delta"],
        compress=False,
        n_jobs=1,
        gen_kwargs=given["options"],
        disable_processing=True,
    )
    pipeline.fit(table, domain=given["sizes"], random_state=given["seed"])
    drawn = pipeline.generate(n_records=len(table), random_state=given["seed"])
    print(json.dumps({name: np.asarray(drawn[name]).astype(int).tolist() for name in drawn}))


if __name__ == "__main__":
    main()
