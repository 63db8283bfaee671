"""Maps of change, and the page of a comparison: differences in points, grouped by what changed."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import httpx
import numpy as np
import pytest
from pyarrow import parquet

from decoder.kinds.over_time import comparison_page
from decoder.kinds.result import StoredResult
from decoder.tables.paging import TableQuery
from decoder_service.shell.web import environment
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.decoder_service.in_process import done
from tests.decoder_service.support import Running, assert_answer, running, upload
from tests.decoder_service.test_pages import INLINE, signed_in
from tests.metric_texts import declaration

GRID = {"grid": "square", "box": [40.0, -74.0, 41.0, -73.0], "columns": 4, "levels": [0]}
ASKED = {"slots": ["night 22-6"], "period": "week", "mode": "memo", "max_memoized_values": 3}
NOISE = {"encoding": "one_hot", "mechanism": "l-osue", "epsilon_infinity": 4.0, "epsilon_one": 3.0}
FIRST = date(2026, 9, 6)


def week(number: int, rows: int = 4) -> Aggregate:
    """The busiest cell moves from the first to the second in week 2."""
    text = declaration("places", "location", rows=rows, **GRID, **ASKED, **NOISE)
    (metric,) = parse_metrics(text).parts("places")
    values = list(metric.location.domain_with())
    shares = np.full(len(values), 0.02)
    shares[1 if number >= 2 else 0] = 0.5
    rng = np.random.default_rng(number)
    one, _ = draw_aggregate(values, shares / shares.sum(), 40_000, metric.params, rng, metric.name)
    day = FIRST + timedelta(days=7 * number)
    return replace(one, definition=metric.to_dict(), params_id=metric.params_id,
                   first_day=day, last_day=day)  # fmt: skip


@dataclass
class Maps:
    """The service, ana's browser, and results: of three weeks, of the last, of another grid."""

    served: Running
    browser: httpx.Client
    weeks: str
    last: str
    other: str


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maps]:
    folder = tmp_path_factory.mktemp("maps")
    with (
        running(f"sqlite:///{folder}/d.sqlite", tick_seconds=0) as served,
        served.client("ana") as ana,
        signed_in(served, "ana") as browser,
    ):
        weeks = [upload(ana, week(number).to_json().encode()) for number in range(3)]
        grid = upload(ana, week(0, rows=5).to_json().encode())
        specs = [
            {"source": {"aggregates": some}, "map": {"split": "week"}}
            for some in (weeks, weeks[2:], [grid])
        ]
        yield Maps(served, browser, *(done(served, ana, folder, spec) for spec in specs))


def asked(maps: Maps, result: str) -> httpx.Response:
    return maps.browser.get("/compare/map.json", params={"result": result})


def test_pages_show_the_changes_of_the_result(maps: Maps) -> None:
    data = asked(maps, maps.weeks).json()
    assert data["difference"] is True
    weeks = [f"week to 2026-09-{day:02}" for day in (6, 13, 20)]
    assert data["bases"] == weeks[:2]
    assert [(one["base"], one["window"]) for one in data["maps"]] == [
        (weeks[0], weeks[1]), (weeks[0], weeks[2]), (weeks[1], weeks[2])]  # fmt: skip
    by_first = [one for one in data["maps"] if one["base"] == weeks[0]]
    with maps.served.client("ana") as ana:
        content = ana.get(f"/v1/results/{maps.weeks}/data?format=parquet").content
    table = parquet.read_table(io.BytesIO(content))
    names = {"share": "since_first", "low": "since_first_low", "high": "since_first_high"}
    for shown, stored in names.items():
        column = table[stored].to_numpy().reshape(3, 17)
        assert np.isnan(column[0]).all()
        for one, row in zip(by_first, column[1:], strict=True):
            assert np.array(one[shown]) * data["unit"] == pytest.approx(row[:-1], abs=1e-6)
    first, second = by_first
    assert first["detected"] == []
    assert second["detected"][:2] == [0, 1]
    assert second["share"][0] < 0 < second["share"][1]
    shade = second["shade"]
    assert shade[0] < 60 < 128 < 190 < shade[1]
    assert all(100 < shade[i] < 156 for i in range(2, 16) if i not in second["detected"])


def test_another_base(maps: Maps) -> None:
    """The first cell falls from 0.5 of 0.82 to 0.02."""
    data = asked(maps, maps.weeks).json()
    *_, last = data["maps"]
    assert last["detected"][:2] == [0, 1]
    assert last["share"][0] * data["unit"] == pytest.approx(-0.48 / 0.82, abs=0.05)
    page = maps.browser.get("/compare", params={"before": maps.weeks, "after": maps.weeks}).text
    assert '<select id="base">' in page
    assert "<option>week to 2026-09-13</option>" in page
    assert "no other base" not in page
    assert not INLINE.search(page)


def test_what_cannot_be_compared_is_refused_in_words(maps: Maps) -> None:
    for before, after, text in (
        (maps.last, maps.last, "one window each"),
        (maps.weeks, maps.last, "share days"),
        (maps.weeks, maps.other, "different versions"),
    ):
        assert_answer(
            maps.browser.get("/compare", params={"before": before, "after": after}), 422, text
        )
    with signed_in(maps.served, "ben") as ben:
        given = {"before": maps.weeks, "after": maps.weeks}
        assert ben.get("/compare", params=given).status_code == 404
        assert ben.get("/compare/map.json", params={"result": maps.weeks}).status_code == 404


def row(value: str, difference: float, p: float) -> dict[str, Any]:
    return {
        "string": value, "before": 0.2, "after": 0.2 + difference, "difference": difference,
        "std_error": 0.01, "low": difference - 0.02, "high": difference + 0.02,
        "p_value": p, "p_adjusted": p,
    }  # fmt: skip


def stored(**levels: float) -> StoredResult:
    ends = [{"first_day": day, "last_day": day, "reports": 9} for day in ("2026-11-01",) * 2]
    rows = [row("same", 0.001, 0.9), row("less", -0.05, 0.001), row("more", 0.04, 0.03)]
    common = {"level": 0.95, "warnings": [], "reason": None}
    content = json.dumps({"windows": ends, "rows": rows, **common, **levels}).encode()
    return StoredResult("compare", frozenset({"results.json"}), lambda _: content)


def page(result: StoredResult, query: TableQuery) -> str:
    parts = comparison_page(result, query)
    text = environment().get_template(parts.template).render(query=query, **parts.variables)
    return " ".join(text.split())


def test_rows_are_grouped_by_what_changed() -> None:
    text = page(stored(level=0.9, alpha=0.05), TableQuery())
    heads = [text.index(f'scope="rowgroup" colspan="7">{name}<')
             for name in ("More", "Less", "No change detected")]  # fmt: skip
    places = [text.index(f'dir="auto">{value}<') for value in ("more", "less", "same")]
    assert heads[0] < places[0] < heads[1] < places[1] < heads[2] < places[2]
    assert "<td>-5.00 points</td><td>-7.00 to -3.00 points</td>" in text
    assert "An interval that excludes 0 shows a change" in text


def test_a_level_of_its_own_decides_what_changed() -> None:
    assert comparison_page(stored(alpha=0.01), TableQuery()).variables["changed"] == 1
    assert comparison_page(stored(alpha=0.05), TableQuery()).variables["changed"] == 2
