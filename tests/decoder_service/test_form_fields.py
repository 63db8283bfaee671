"""Forms know the metric: kind, days and list filled or demanded, the wrong field marked."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from decoder_service.jobs.form import choices_of_form, percent_of_share, share_of_percent
from decoder_service.lists.page import as_ids, as_names
from decoder_service.releases.page import fields_of_toml, policy_of_form, toml_of_fields
from decoder_service.shell.errors import FieldError, RequestError
from decoder_service.shell.web import Posted
from disclosure.release.policy import policy_of_text
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
        assert tabs == ["decode", "series", "compare"]
        both = text_of(ana.get("/jobs/new?metric=homepage&operation=compare"))
        assert 'name="before_first" value="2026-11-09"' in both
        assert 'name="first" value="2026-11-10"' in both


def test_lists_are_named_and_missing_ones_marked(idle: Running) -> None:
    with signed_in(idle, "ana") as ana:
        ana.post("/v1/lists?name=words%20to%20find", content=WORDS)
        given = {"operation": "decode", "metric": "homepage"}
        page = text_of(ana.post("/jobs", data=given), 422)
        assert "has no list of its values" in page
        assert 'aria-invalid="true" aria-describedby="wrong"' in page
        assert '<span class="wrong" id="wrong">' in page
        other = text_of(ana.post("/jobs", data=given | {"list": "word to find"}), 422)
        assert "List: there is no list 'word to find'" in other
        assert 'name="list" list="list-names" autocomplete="off" value="word to find"' in other
        made = ana.post("/jobs", data=given | {"list": "words to find"})
        assert made.status_code == 303
        assert "words to find" in text_of(ana.get(made.headers["location"]))


def test_names_of_lists_and_their_versions_come_back(idle: Running) -> None:
    with signed_in(idle, "ben") as ben:
        one = ben.post("/v1/lists?name=mine", content=WORDS).json()["id"]
    rows = idle.service.lists.all(idle.people["ben"])
    for stored, shown in ((one, "mine"), (f"{one}:2", "mine, version 2")):
        form = Posted({"list": [stored]}, {})
        assert as_names(form, rows).text("list") == shown
        assert as_ids(Posted({"list": [shown]}, {}), rows).text("list") == stored
    with pytest.raises(FieldError) as told:
        as_ids(Posted({"weights": ["mine too"]}, {}), rows)
    assert told.value.field == "weights"


def policy(**changes: str) -> Posted:
    given = {
        "owner": 'the "office"', "audience": "public", "min_reports": "2,000", "min_low": "1.5",
        "rounding": "0.1", "reports_rounding": "100", "sealed_after_days": "7",
        "strata": "region, slot",
    }  # fmt: skip
    texts = {f"policy_{name}": [text] for name, text in (given | changes).items()}
    return Posted(texts | {"fields": ["1"]}, {})


def test_policy_fields_are_toml_and_back() -> None:
    text = policy_of_form(policy())
    read = policy_of_text(text)
    assert (read.owner, read.min_reports, read.min_low) == ('the "office"', 2000, 0.015)
    assert (str(read.rounding), read.strata) == ("0.001", ("region", "slot"))
    again = Posted(fields_of_toml(text), {})
    assert toml_of_fields(again) == text
    with pytest.raises(FieldError, match=r"Step of shares: 'much' is not a number of per cent"):
        policy_of_form(policy(rounding="much"))
    with pytest.raises(RequestError, match="total, which only"):
        fields_of_toml(text + "total = true\n")


def test_levels_are_given_in_per_cent() -> None:
    for typed, share in (("5", "0.05"), ("99.9 %", "0.999"), ("0,1", "0.001")):
        form = Posted({"alpha_percent": [typed]}, {})
        assert share_of_percent(form, "alpha") == share
        assert choices_of_form(form) == {"alpha": share}
    for share, shown in (("0.05", "5"), ("0.999", "99.9"), ("0.001", "0.1"), ("x", "x")):
        assert percent_of_share(share) == shown
    for typed in ("0", "100", "x", "nan", "-1"):
        with pytest.raises(FieldError, match="Level of the intervals: "):
            share_of_percent(Posted({"level_percent": [typed]}, {}), "level")
