"""Forms know the metric: kind, days and list filled or demanded, the wrong field marked."""

import re
from html import unescape

import httpx
import pytest

from decoder_service.jobs.form import choices_of_form, percent_of_share, share_of_percent
from decoder_service.shell.errors import FieldError
from decoder_service.shell.web import Posted
from tests.decoder_service.live_collector import MONDAY
from tests.decoder_service.support import WORDS, Running
from tests.decoder_service.test_pages import signed_in


def text_of(answer: httpx.Response, status: int = 200) -> str:
    assert answer.status_code == status, answer.text
    return " ".join(unescape(answer.text).split())


def test_metric_forms_are_filled_with_days(idle: Running) -> None:
    with signed_in(idle, "ana") as ana:
        page = text_of(ana.get("/jobs/new?metric=homepage"))
        assert f'name="first" value="{MONDAY}"' in page
        assert "served 2026-11-09 to 2026-11-10" in page
        assert "The values of this metric are not declared" in page
        tabs = re.findall(r"/jobs/new\?operation=(\w+)&kind=string&metric=homepage", page)
        assert tabs == ["decode", "series"]


def test_lists_are_named_and_missing_ones_marked(idle: Running) -> None:
    with signed_in(idle, "ana") as ana:
        listed = ana.post("/v1/lists?name=words%20to%20find", content=WORDS).json()["id"]
        given = {"operation": "decode", "metric": "homepage"}
        assert "The values of this metric are not declared" in text_of(
            ana.get("/jobs/new", params=given)
        )
        other = text_of(ana.post("/jobs", data=given | {"list": "word to find"}), 422)
        assert "List: 'word to find': string should match pattern" in other
        assert 'aria-invalid="true" aria-describedby="wrong"' in other
        assert '<span class="wrong" id="wrong">' in other
        assert "selected>word to find, which is not there</option>" in other
        fixed = text_of(ana.get("/jobs/new", params=given | {"list": f"{listed}:1"}))
        assert f'<option value="{listed}:1" selected>words to find, version 1, pinned' in fixed
        made = ana.post("/jobs", data=given | {"list": listed})
        assert made.status_code == 303
        assert listed in text_of(ana.get(made.headers["location"]))


def test_levels_are_given_in_per_cent() -> None:
    for typed, share in (("5", "0.05"), ("99.9 %", "0.999"), ("0,1", "0.001")):
        form = Posted({"alpha_percent": [typed]}, {})
        assert share_of_percent(form, "alpha_percent", "Level") == share
        assert choices_of_form(form) == {"alpha": share}
    for share, shown in (("0.05", "5"), ("0.999", "99.9"), ("0.001", "0.1"), ("x", "x")):
        assert percent_of_share(share) == shown
    for typed in ("0", "100", "x", "nan", "-1"):
        with pytest.raises(FieldError, match=r"Level of the intervals: .* per cent"):
            choices_of_form(Posted({"level_percent": [typed]}, {}))
