"""Other people's libraries as oracles: pycanon (k, l, t of a table) and OpenDP (mechanisms).

Neither is a dependency. Both run in an environment of their own, if there is one:

    python -m venv ORACLES && ORACLES/bin/pip install pycanon opendp
    RAPPOR_ORACLES=ORACLES/bin/python pytest tests/disclosure/test_oracles.py
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from disclosure.anonymize import (
    Columns,
    Hierarchy,
    IntervalColumn,
    anonymise,
    class_diversity,
)
from disclosure.series import Charge, gaussian_sigma, geometric_probability

PYTHON = os.environ.get("RAPPOR_ORACLES", "")
pytestmark = pytest.mark.skipif(
    not Path(PYTHON).is_file(),
    reason="RAPPOR_ORACLES names no Python that has pycanon and opendp",
)

PYCANON = """
import json, sys
import pandas as pd
from pycanon import anonymity
given = json.load(sys.stdin)
table = pd.DataFrame(given["table"])
keys, secret = given["keys"], [given["secret"]]
print(json.dumps({
    "k": int(anonymity.k_anonymity(table, keys)),
    "l": int(anonymity.l_diversity(table, keys, secret)),
    "entropy": int(anonymity.entropy_l_diversity(table, keys, secret)),
    "t": float(anonymity.t_closeness(table, keys, secret)),
}))
"""
OPENDP = """
import json, sys
import opendp.prelude as dp
dp.enable_features("contrib")
given = json.load(sys.stdin)
found = {}
space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
for epsilon in given["epsilons"]:
    noise = dp.m.make_geometric(*space, scale=1 / epsilon)
    draws = [noise(0) for _ in range(given["draws"])]
    found[str(epsilon)] = {"map": noise.map(1), "draws": draws}
print(json.dumps(found))
"""


def ask(program: str, given: object) -> Any:
    done = subprocess.run(
        [PYTHON, "-c", program], input=json.dumps(given), capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("k", [2, 5, 10])
def test_pycanon_finds_our_k_l_and_t(k: int) -> None:
    rng = np.random.default_rng(k)
    codes = ["75005", "75006", "59000", "59100"]
    people = {
        "postcode": rng.choice(codes, 300).tolist(),
        "age": rng.integers(20, 60, 300).astype(str).tolist(),
    }
    plans = rng.choice(["basic", "pro", "team"], 300, p=[0.6, 0.3, 0.1]).tolist()
    columns = Columns(
        {
            "postcode": Hierarchy(tuple((code, code[:2], "FR") for code in codes)),
            "age": IntervalColumn(0, 100),
        }
    )
    made = anonymise(people, columns, k=k)
    ours = class_diversity(made.of_row, plans)
    told = ask(PYCANON, {"table": {**made.to_table(), "plan": plans},
                         "keys": ["postcode", "age"], "secret": "plan"})  # fmt: skip
    assert told["k"] == np.bincount(made.of_row).min() >= k
    assert told["l"] == ours.distinct.min()
    assert told["entropy"] == int(np.exp(ours.entropy.min()) + 1e-9)
    assert told["t"] == pytest.approx(ours.closeness.max())


def test_opendp_draws_the_geometric_law_that_we_compute() -> None:
    """Chi-squared over 9 cells, 20,000 draws: above 26.1 in 1 run of 1,000, for each epsilon."""
    epsilons, draws = [0.5, 1.0, 2.0], 20_000
    told = ask(OPENDP, {"epsilons": epsilons, "draws": draws})
    for epsilon in epsilons:
        found = told[str(epsilon)]
        assert found["map"] == pytest.approx(epsilon)
        values = np.clip(found["draws"], -4, 4)
        counts = np.bincount(values + 4, minlength=9)
        law = geometric_probability(np.arange(-60, 61), 1, epsilon)
        expected = draws * np.array([law[:57].sum(), *law[57:64], law[64:].sum()])
        assert ((counts - expected) ** 2 / expected).sum() < 26.1


def test_gaussian_sigma_is_below_the_proven_bound() -> None:
    """OpenDP's zCDP bound of the noise that we add is never below its exact delta."""
    program = """
import json, sys
import opendp.prelude as dp
dp.enable_features("contrib", "honest-but-curious")
given = json.load(sys.stdin)
space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
out = []
for sigma, epsilon in given:
    noise = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=sigma))
    out.append(noise.map(1.0).delta(epsilon))
print(json.dumps(out))
"""
    cases = [(0.5, 1e-5), (0.9, 1e-5), (3.0, 1e-6)]
    sigmas = [gaussian_sigma(1.0, Charge(*case)) for case in cases]
    told = ask(program, [(s, c[0]) for s, c in zip(sigmas, cases, strict=True)])
    for (epsilon, delta), sigma, bound in zip(cases, sigmas, told, strict=True):
        assert sigma <= math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        assert delta * (1 - 1e-6) <= bound <= 30 * delta
