"""Writes tests/vectors/v1/compiled.json. Run by hand when the compiled form changes.

    python tests/vectors/make_compiled_v1.py

The metrics files of the other vectors in the compiled form that clients without a TOML parser read
(docs/porting.md, part 9), what each metric promises, and documents that must be refused.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rappor_core.metrics.compiled import compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile

HERE = Path(__file__).parent / "v1"


def promises(file: MetricsFile) -> dict[str, dict[str, float | None]]:
    """Nats that each metric promises; None for no bound."""
    named = {
        metric.name: {
            "epsilon_infinity": metric.params.epsilon_infinity,
            "epsilon_one": metric.epsilon_one,
            "lifetime_epsilon": metric.lifetime_epsilon,
        }
        for metric in file.metrics.values()
    }
    return {
        name: {key: None if math.isinf(nats) else nats for key, nats in row.items()}
        for name, row in named.items()
    }


def texts() -> dict[str, str]:
    """Every good metrics file of the vectors, by where it stands."""
    read = {name: json.loads((HERE / f"{name}.json").read_text())
            for name in ("metrics", "device", "places")}  # fmt: skip
    device = read["device"]
    versions = {f"lives/{n}": text for n, text in enumerate(device["lives"]["versions"])}
    return {
        "metrics": read["metrics"]["metrics.toml"],
        "ledger": device["ledger"]["metrics.toml"],
        **versions,
        "places": read["places"]["metrics"]["metrics.toml"],
    }


BAD: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("another version", lambda d: d.update(version=2)),
    ("version as text", lambda d: d.update(version="1")),
    ("an unknown key", lambda d: d.update(more=1)),
    ("no budget key", lambda d: d.pop("budget")),
    ("budget as text", lambda d: d.update(budget="40")),
    ("a budget of nothing", lambda d: d.update(budget=0)),
    ("a budget below what the metrics cost", lambda d: d.update(budget=1.0)),
    ("no metrics", lambda d: d.update(metrics=[])),
    ("a metric twice", lambda d: d["metrics"].append(d["metrics"][0])),
    ("another params_id", lambda d: d["metrics"][0].update(params_id="0" * 32)),
    ("no params_id", lambda d: d["metrics"][0].pop("params_id")),
    ("a probability changed", lambda d: params(d).update(p1=params(d)["p1"] + 1)),
    ("a missing key", lambda d: definition(d).pop("owner")),
    ("an unknown key of a metric", lambda d: definition(d).update(colour="red")),
    ("an unknown kind", lambda d: definition(d).update(kind="number")),
    ("a kind of another encoding", lambda d: definition(d).update(kind="boolean")),
    ("an upper-case name", lambda d: definition(d).update(name="Homepage")),
    ("a day that is none", lambda d: definition(d).update(expires="2027-02-30")),
    ("an unknown period", lambda d: definition(d).update(period="year")),
    ("an empty owner", lambda d: definition(d).update(owner=" ")),
    ("no fallback", lambda d: definition(d).update(fallback=None)),
    ("a cap that fallback fills", lambda d: definition(d).update(max_memoized_values=1)),
    ("a fraction of a report", lambda d: definition(d).update(max_reports_per_period=0.5)),
    ("a cap as boolean", lambda d: definition(d).update(max_memoized_values=True)),
    ("categories of a string", lambda d: definition(d).update(categories=["a", "b"])),
    ("a floor above min_reports", lambda d: definition(d).update(min_reports_per_cohort=10**6)),
    ("no_data as number", lambda d: definition(d).update(no_data=1)),
    ("md5 with too many bits", lambda d: params(d).update(hash="md5", num_bits=512)),
    ("no hashes", lambda d: params(d).update(num_hashes=0)),
    ("a response that keeps nothing", lambda d: params(d).update(p2=params(d)["q2"])),
]


def definition(document: dict[str, Any]) -> dict[str, Any]:
    """Of the first metric, `homepage`."""
    found: dict[str, Any] = document["metrics"][0]["definition"]
    return found


def params(document: dict[str, Any]) -> dict[str, Any]:
    """Of the first metric, `homepage`."""
    found: dict[str, Any] = definition(document)["params"]
    return found


def bad(good: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Documents that must be refused, each with one fault."""
    for name, spoil in BAD:
        document = copy.deepcopy(good)
        spoil(document)
        yield {"name": name, "document": document}


def make() -> dict[str, Any]:
    """The whole file."""
    files = {name: parse_metrics(text) for name, text in texts().items()}
    documents = {
        name: {"document": compiled(file), "promises": promises(file)}
        for name, file in files.items()
    }
    return {"good": documents, "bad": list(bad(documents["metrics"]["document"]))}


if __name__ == "__main__":
    text = json.dumps(make(), indent=1, ensure_ascii=True) + "\n"
    (HERE / "compiled.json").write_text(text)
