"""Flows in releases: detected ones are shown, and others cannot be inferred from its zones."""

import csv
import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoder.kinds.flow import KIND
from decoder.kinds.result import Question
from decoder.kinds.run import write_result
from decoder.progress import silent
from disclosure import release
from disclosure.errors import PolicyError, ReleaseError
from disclosure.release.inference import protection as search
from disclosure.release.inference.facts import TableVersion
from disclosure.release.inference.protection import protect
from disclosure.release.policy import RollUp
from disclosure.rows import publishing as row_sources
from simulations.flows import city_matrix, city_metric, draw_flows
from tests.disclosure.release.support import ISSUED, policy, shown, table

DAYS = (date(2026, 10, 1), date(2026, 10, 31))
RULES = policy(min_low=0.005, strata=("between",))
ZONES = {"A": "ab", "B": "cd"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a city of 16 cells in four zones."""
    out = tmp_path_factory.mktemp("flows")
    metric = city_metric(4.0, 50_000, rows=2, columns=2)
    matrix = city_matrix(metric.details, np.random.default_rng(1))
    counts = draw_flows(metric, matrix, 50_000, np.random.default_rng(2), DAYS)
    found = KIND.decode([counts], Question())
    write_result(found, KIND, "decode", out, silent)
    return out


def between(name: str, shares: dict[str, float], **changes: Any) -> release.CellTable:
    """Flows between the cells, or the zones, of two zones of two cells."""
    held = {
        f"{one}>{two}": tuple(f"{a}>{b}" for a in ZONES[one] for b in ZONES[two])
        for one in ZONES
        for two in ZONES
    }
    fields: dict[str, Any] = {"metric": "commute", "strata": (("between", name),), "complete": True,
                              "members": held if name == "zones" else {}}  # fmt: skip
    return table(shares, 0.001, **fields | changes)


def small_city(reply: float) -> list[release.CellTable]:
    """All but `told` of the flows from zone A to zone B are from a to d, and are detected."""
    cells = {f"{a}>{b}": 0.0 for a in "abcd" for b in "abcd"}
    cells |= {"a>a": 0.3, "b>b": 0.2, "c>c": 0.2, "d>d": 0.2, "a>d": reply, "b>c": 0.1 - reply}
    zones = {"A>A": 0.5, "A>B": 0.1, "B>A": 0.0, "B>B": 0.4}
    return [between("zones", zones), between("cells", cells)]


def test_what_is_told_is_shown_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    made = release.build_release(release.read_source(folder), RULES, ISSUED)
    found = json.loads((folder / "results.json").read_text())
    with (folder / "flows.csv").open(encoding="utf-8", newline="") as file:
        flows = [row | {"detected": row["detected"] == "true"} for row in csv.DictReader(file)]
    for one, rows in zip(made.tables, (found["zones"], flows), strict=True):
        reply = {f"{row['origin']}>{row['destination']}": row["detected"] for row in rows}
        assert tuple(reply) == one.cells
        assert all(reply[cell] for cell, seen in zip(one.cells, one.is_shown, strict=True) if seen)
        assert 0 < one.is_shown.sum() < len(one.cells)
        assert np.nanmin(one.low) >= RULES.min_low
    assert not release.audit_releases([made]).findings
    assert any("between zones is the sum" in note for note in made.notes)
    release.write_release(made, tmp_path / "release")
    again = release.read_release(tmp_path / "release")
    assert again.tables[0].members == made.tables[0].members
    assert release.audit_releases([again]).hidden == sum(
        int((~one.is_shown).sum()) for one in made.tables
    )


@pytest.mark.parametrize(("reply", "is_shown"), [(0.08, True), (0.0985, False)])
def test_a_flow_is_not_what_its_zones_leave(reply: float, is_shown: bool) -> None:
    """If one flow has .0985 of .1 between two zones, the other three are known to be nearly 0."""
    made = release.build_release(small_city(reply), RULES, ISSUED)
    zones, cells = shown(made), shown(made, 1)
    assert zones["B>A"] == cells["b>d"] == "u"
    both = isinstance(zones["A>B"], float) and isinstance(cells["a>d"], float)
    assert both <= is_shown
    assert isinstance(cells["a>d"], float) >= is_shown
    assert isinstance(cells["a>a"], float)
    assert release.audit_releases([made]).findings == ()


def drawn(rng: np.random.Generator) -> release.Release:
    """A random city of four zones, published before anybody judged it, by exact shares."""
    cells = {f"{a}>{b}": 0.0 for a in "abcd" for b in "abcd"}
    cells |= dict(zip(cells, rng.dirichlet(np.full(16, 0.3)).round(3), strict=True))
    cells["a>a"] += 1 - sum(cells.values())
    zones = {
        f"{one}>{two}": sum(cells[f"{a}>{b}"] for a in ZONES[one] for b in ZONES[two])
        for one in ZONES
        for two in ZONES
    }
    whole = [between("zones", zones), between("cells", cells)]
    free = replace(RULES, min_low=1e-9)
    made = release.build_release([replace(one, detected=one.estimate > 0.02) for one in whole],
                         free, ISSUED)  # fmt: skip
    return replace(made, policy=RULES)


@pytest.mark.parametrize("seed", range(6))
def test_indistinguishable_values_are_judged_as_one(seed, monkeypatch) -> None:
    made = drawn(np.random.default_rng(seed))

    def known() -> list[tuple[Any, ...]]:
        versions = [TableVersion(one, RULES, is_draft=False) for one in made.tables]
        return sorted((one.table, one.cell, round(one.low, 6), round(one.high, 6))
                      for one in protect(versions).findings)  # fmt: skip

    reduced = known()
    monkeypatch.setattr(search, "one_of_alike", lambda tables, rows: (rows, {}))
    assert reduced == known()


def test_flows_that_cannot_be_released_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="does not publish the stratum 'between'"):
        release.build_release(release.read_source(folder), policy(), ISSUED)
    with pytest.raises(ReleaseError, match="flows already have a stratum 'between'"):
        release.read_source(folder, {"between": "districts"})
    with pytest.raises(ReleaseError, match="published as tables"):
        row_sources.read_estimates(folder)
    pooled = replace(RULES, roll_up={"commute": RollUp("cells")})
    with pytest.raises(PolicyError, match=r"already summed by zone; remove roll_up\.commute"):
        release.build_release(release.read_source(folder), pooled, ISSUED)
    for name in ("results.json", "flows.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    found = json.loads((tmp_path / "results.json").read_text())
    for changes, said in (({"flow": found["flow"] | {"lag": 3}}, "has no matrix"),
                          ({"first_day": None}, "have no dates")):  # fmt: skip
        (tmp_path / "results.json").write_text(json.dumps(found | changes))
        with pytest.raises(ReleaseError, match=said):
            release.read_source(tmp_path)
