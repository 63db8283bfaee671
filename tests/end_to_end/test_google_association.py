"""google/rappor's association files, from files made by hand to the table."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.end_to_end.command import Printed, run

K, H, M = 16, 2, 8
WORDS = ("apple", "pear", "plum")
SHARES = {("apple", 1): 0.4, ("apple", 0): 0.1, ("pear", 0): 0.3, ("kiwi", 1): 0.2}
REPORTS = 20_000


def positions(word: str, cohort: int) -> list[int]:
    digest = hashlib.md5(cohort.to_bytes(4, "big") + word.encode()).digest()
    return [digest[i] % K for i in range(H)]


def write_files(folder: Path, *, repeated: bool = False) -> None:
    rng = np.random.default_rng(4)
    (folder / "noise.csv").write_text(f"k,h,m,p,q,f\n{K},{H},{M},0.25,0.75,0.0\n")
    (folder / "schema.csv").write_text(
        "metric,var,var_type,params\nFruit,name,string,noise\nFruit,ripe,boolean,noise\n"
    )
    with (folder / "map.csv").open("w", newline="") as file:
        for word in WORDS:
            cells = [c * K + bit + 1 for c in range(M) for bit in positions(word, c)]
            csv.writer(file).writerow([word, *cells])
    held = list(SHARES)
    with (folder / "reports.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["client", "cohort", "name", "ripe"])
        for device, pick in enumerate(rng.choice(len(held), REPORTS, p=list(SHARES.values()))):
            word, ripe = held[pick]
            cohort = int(rng.integers(M))
            bits = np.full(K + 1, 0.25)
            bits[[*positions(word, cohort)]] = 0.75
            bits[K] = 0.75 if ripe else 0.25
            drawn = (rng.random(K + 1) < bits).astype(int)
            text = "".join(map(str, drawn[:K][::-1]))  # the most significant bit first
            writer.writerow([0 if repeated else device, cohort + M, text, drawn[K]])
        writer.writerow([REPORTS, 0, "", 1])


def asked(folder: Path, *more: str, returns: int = 0) -> Printed:
    command = ["association", "--metric", "Fruit", "--var1", "name", "--var2", "ripe"]
    command += ["--reports", str(folder / "reports.csv"), "--schema", str(folder / "schema.csv")]
    return run(*command, "--params-dir", str(folder), *more, returns=returns)


def test_the_table_of_their_files(tmp_path: Path) -> None:
    """Fixed seed; five standard errors. `kiwi` is not in the map: it is the last row."""
    write_files(tmp_path)
    out = tmp_path / "out"
    done = asked(tmp_path, "--map1", str(tmp_path / "map.csv"), "-o", str(out), "--json")
    content = json.loads(done.stdout)
    assert any("1 rows with a blank" in note for note in content["warnings"])
    assert content["independence"]["refuted"]
    truth = {(w if w in WORDS else "(not listed)", str(bool(r)).upper()): s
             for (w, r), s in SHARES.items()}  # fmt: skip
    for cell in content["cells"]:
        share = truth.get((cell["first"], cell["second"]), 0.0)
        assert abs(cell["estimate"] - share) < 5 * cell["std_error"]
        assert cell["likelihood"] >= 0
    with (out / "assoc-results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["ripe", "name", "proportion"]
    assert sum(float(row["proportion"]) for row in rows) == pytest.approx(1)


@pytest.mark.long
def test_what_is_wrong_with_files_is_said(tmp_path: Path) -> None:
    write_files(tmp_path, repeated=True)
    assert "'name' is a string: give its map.csv" in asked(tmp_path, returns=1).stderr
    more = ("--map1", str(tmp_path / "map.csv"), "--no-em")
    assert "are of clients that have another" in asked(tmp_path, *more).stdout.replace("\n", " ")
    text = (tmp_path / "reports.csv").read_text()
    (tmp_path / "reports.csv").write_text(text.replace("\n0,", "\n0,x", 1))
    assert "reports.csv: " in asked(tmp_path, *more, returns=1).stderr
    (tmp_path / "schema.csv").write_text("metric,var,var_type,params\nFruit,name,string,../noise\n")
    assert "schema.csv" in asked(tmp_path, *more, returns=1).stderr
