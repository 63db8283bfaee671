"""k-anonymity by another library (anjana, with pycanon), in an environment of its own.

Run by `benchmarks/anonymity.py --rivals PYTHON`; imports nothing of this project. Reads lines of
JSON from standard input, each with a task, and answers each with one.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time


def main() -> None:
    """`anonymise` (anjana) and `level` (pycanon), until the input ends."""
    for text in sys.stdin:
        given = json.loads(text)
        found = anonymise(given) if given["task"] == "anonymise" else level(given)
        print(json.dumps(found), flush=True)


def anonymise(given: dict) -> dict:
    """Seconds of the processor, and the published columns with the number of each row."""
    import pandas as pd
    from anjana.anonymity import k_anonymity

    table, names = pd.DataFrame(given["table"]), list(given["table"])
    table["row"] = range(len(table))
    trees = {
        name: {number: pd.Series(level) for number, level in enumerate(levels)}
        for name, levels in given["levels"].items()
    }
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        made = k_anonymity(table, [], names, given["k"], given["suppressed"], trees)
    took = time.process_time() - start
    rows = made["row"].tolist() if len(made) else []
    return {"seconds": took, "rows": rows, "table": {n: list(made[n]) for n in names if rows}}


def level(given: dict) -> dict:
    """The k of a table."""
    import pandas as pd
    from pycanon import anonymity

    return {"k": int(anonymity.k_anonymity(pd.DataFrame(given["table"]), list(given["table"])))}


if __name__ == "__main__":
    main()
