"""The pages as text: who sees what, escaping, the policy, forms, tables."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from decoder import Candidates, decode, write_outputs
from decoder.errors import DecodeError
from decoder.kinds.values import decoding_result
from decoder.output.tiles import Tiles
from decoder_service.jobs.form import choices_of_form, percent_of_share, share_of_percent
from decoder_service.jobs.specs import JobSpec
from decoder_service.shell.errors import FieldError
from decoder_service.shell.web import Posted
from rappor_core.metrics.file import parse_metrics
from rappor_server.errors import SettingsError
from simulations.populations.draws import draw_aggregate
from tests.decoder_service.live_collector import MONDAY
from tests.decoder_service.support import (
    WORDS,
    Running,
    as_listed,
    assert_answer,
    keep_result,
    result_row,
    running,
    set_metrics,
    text_of,
)
from tests.decoder_service.test_bodies import all_routes
from tests.metric_texts import declaration

BAD = "<script>alert(1)</script>"
TURNED = "\u202egnp.exe"
DECLARED = declaration(
    "word", "string", num_bits=64, num_hashes=2, num_cohorts=16, epsilon_infinity=4.0,
    epsilon_one=3.0, max_memoized_values=3, fallback="other",
)  # fmt: skip
VALUES = [BAD, TURNED, "'\"><b>", "plain", *map(str, range(20))]
PUBLIC = {"/sign-in", "/dictionary"}
INLINE = re.compile(r"<style|\sstyle=|\son[a-z]+=|<script(?! src=| type=.application/json)")


@dataclass
class Pages:
    service: Running
    browsers: dict[str, httpx.Client]
    old: str
    new: str

    def text(self, path: str, name: str = "ana", status: int = 200) -> str:
        answer = self.browsers[name].get(path)
        assert answer.status_code == status, answer.text[:500]
        return answer.text


def decoded(folder: Path, number: int) -> tuple[dict[str, bytes], dict[str, Any]]:
    metric, rng = parse_metrics(DECLARED).metrics["word"], np.random.default_rng(number)
    weights = np.array([4.0, 2.0, 2.0, 1.0 + number] + [0.05] * 20)
    one, _ = draw_aggregate(VALUES, weights / weights.sum(), 60_000, metric.params, rng, "word")
    first = date(2026, 11, 2) + timedelta(days=7 * number)
    one = replace(one, definition=metric.to_dict(), params_id=metric.params_id,
                  first_day=first, last_day=first + timedelta(days=6))  # fmt: skip
    out = folder / str(number)
    decoding = decode(one, Candidates.from_strings([*VALUES, *(f"none{i}" for i in range(100))]))
    write_outputs(decoding, out)
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    return files, decoding_result(decoding).summary


def stored(service: Running, number: int, files: dict[str, bytes], summary: Any) -> str:
    manifest = json.loads(files["manifest.json"])
    source = {"aggregates": ["a" * 64]}
    spec = JobSpec.model_validate({"source": source, "candidates": {"numbers": [0, 5]}})
    inputs = {"aggregates": [["a" * 64]], "candidates": None}
    made = {"spec": spec.model_dump(mode="json"), "inputs": inputs, "notes": []}
    row = result_row(
        f"{number:016x}",
        **{name: manifest[name] for name in ("metric", "params_id", "first_day", "last_day")},
        manifest=json.dumps(made),
        summary=json.dumps(summary),
        created=1_790_000_000.0 + number,
    )
    return keep_result(service, row, files, "ana")


def signed_in(service: Running, name: str) -> httpx.Client:
    headers = {"Origin": service.url}
    with httpx.Client(base_url=service.url, headers=headers, timeout=30) as client:
        answer = client.post("/sign-in", data={"key": service.keys[name], "next": "/lists"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/lists")
    return httpx.Client(base_url=service.url, headers=headers, cookies=client.cookies, timeout=30)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    folder = tmp_path_factory.mktemp("pages")
    with running(f"sqlite:///{folder}/decoder.sqlite") as service:
        weeks = [decoded(folder, number) for number in range(2)]
        old, new = (stored(service, n + 1, *week) for n, week in enumerate(weeks))
        browsers = {name: signed_in(service, name) for name in ("ana", "ben", "vic", "root")}
        made = browsers["ana"].post("/lists", data={"name": f"{BAD}", "values": "a\nb"})
        assert made.status_code == 303, made.text
        yield Pages(service, browsers, old, new)
        for browser in browsers.values():
            browser.close()


def paths(pages: Pages) -> list[str]:
    listed = pages.service.service.lists.all(pages.service.people["root"])[0].id
    return ["/metrics", "/metrics/word", "/lists", f"/lists/{listed}", "/jobs", "/jobs/new",
            "/jobs/new?kind=location", "/jobs/new?operation=series",
            "/results", f"/results/{pages.old}", f"/results/{pages.old}?all=1&q=script",
            "/compare", f"/compare?before={pages.old}&after={pages.new}", "/keys", "/audit",
            "/sign-in", "/dictionary", "/nothing"]  # fmt: skip


def test_pages_are_strict_and_escape_strangers_text(pages: Pages) -> None:
    """No script, style or handler within a page; values are text, and marks that turn are seen."""
    seen = ""
    for path in paths(pages):
        answer = pages.browsers["root"].get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code in (200, 404), path
        assert answer.status_code == 200 or path == "/nothing", path
        if path != "/nothing":
            assert policy.startswith("default-src 'self'; base-uri 'none'"), path
            assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        page = answer.text
        assert BAD not in page, path
        assert TURNED[0] not in page, path
        assert not INLINE.search(page), path
        seen += page
    for name in ("../app.py", "%2e%2e%2fapp.py", "page.html.j2"):
        assert pages.browsers["root"].get(f"/static/{name}").status_code == 404
    assert "&lt;script&gt;alert(1)" in seen
    assert "\\u202egnp.exe" in seen


def test_who_is_not_signed_in_is_asked_to(pages: Pages) -> None:
    with pages.service.client(None) as client:
        for path in paths(pages):
            answer = client.get(path)
            if path.partition("?")[0] in PUBLIC:
                assert answer.status_code == 200
            elif path != "/nothing":
                assert answer.status_code == 303, path
                assert answer.headers["location"].startswith("/sign-in?next=%2F"), path
        own, key = {"Origin": pages.service.url}, pages.service.keys["ana"]
        for elsewhere in (
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "javascript:1",
        ):
            answer = client.post("/sign-in", data={"key": key, "next": elsewhere}, headers=own)
            assert answer.headers["location"] == "/metrics", elsewhere
        assert_answer(
            client.post("/sign-in", data={"key": "rd_no"}, headers=own),
            401,
            "unknown to this decoder service, or revoked",
        )


def test_a_form_from_elsewhere_changes_nothing(pages: Pages) -> None:
    """Every form that the service has, also the next one that is added."""
    cookies = pages.browsers["root"].cookies
    forms = [
        re.sub(r"{\w+}", "0" * 16, route.path)
        for route in all_routes()
        if "POST" in route.methods and not route.path.startswith(("/v1/", "/sign-in"))
    ]
    assert len(forms) > 22
    for origin in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        with httpx.Client(base_url=pages.service.url, cookies=cookies) as client:
            for form in forms:
                assert client.post(form, data={"x": "1"}, headers=origin).status_code == 403, form
    assert pages.text("/results", "vic").count("/results/0") == 0


def test_a_role_sees_its_pages_alone(pages: Pages) -> None:
    for path in ("/jobs", "/jobs/new", "/lists"):
        assert "viewer" in pages.text(path, "vic", 403)
        assert f'href="{path}"' not in pages.text("/metrics", "vic")
    for path in ("/keys", "/audit"):
        assert "needs admin" in pages.text(path, "ana", 403)
    pages.text(f"/results/{pages.old}", "ben", 404)
    pages.text(f"/results/{pages.old}", "vic", 404)
    release = f"/results/{pages.old}/release"
    assert pages.browsers["ana"].post(release, data={"released": "1"}).status_code == 303
    page = pages.text(f"/results/{pages.old}", "vic")
    assert "candidates.csv" not in page
    assert "command line" not in page
    assert "All candidates" not in page
    pages.text(f"/compare?before={pages.old}&after={pages.new}", "vic", 404)
    assert pages.browsers["ana"].post(release).status_code == 303
    pages.text(f"/results/{pages.old}", "vic", 404)


def test_a_result_shows_what_its_report_shows(pages: Pages) -> None:
    """Warnings, intervals, table and fit: the page adds links, search and where it comes from."""
    report = pages.text(f"/v1/results/{pages.old}/files/report.html")
    parts = re.findall(r"<(ul|tbody|dl)>(.*?)</\1>", report, re.DOTALL)
    assert [name for name, _ in parts] == ["ul", "ul", "tbody", "dl"]
    page = pages.text(f"/results/{pages.old}")
    assert all(part in page for _, part in parts)


def test_keys_are_shown_once_and_revoked(pages: Pages) -> None:
    root = pages.browsers["root"]
    made = root.post("/keys", data={"name": "new", "role": "viewer", "label": "phone"})
    found = re.search(r'id="new-key">(rd_viewer_([0-9a-f]{16})_[^<]+)<', made.text)
    assert found
    assert found[1] not in root.get("/keys").text
    revoke = f"/keys/{found[2]}/revoke"
    assert root.post(revoke).status_code == 422
    assert root.post(revoke, data={"sure": "1"}).status_code == 303
    with pages.service.client(None) as client:
        headers = {"Origin": pages.service.url}
        again = client.post("/sign-in", data={"key": found[1]}, headers=headers)
    assert again.status_code == 401
    assert "revoke-key" in root.get("/audit").text


def test_metric_forms_are_filled_with_days(idle: Running) -> None:
    with signed_in(idle, "ana") as ana:
        page = text_of(ana.get("/jobs/new?metric=homepage"))
        assert f'name="first" value="{MONDAY}"' in page
        assert "Available: 2026-11-09 to 2026-11-10" in page
        assert "This metric declares no values" in page
        tabs = re.findall(r"/jobs/new\?operation=(\w+)&kind=string&metric=homepage", page)
        assert tabs == ["decode", "series"]


def test_lists_are_named_and_missing_ones_marked(idle: Running) -> None:
    with signed_in(idle, "ana") as ana:
        listed = ana.post("/v1/lists?name=words%20to%20find", content=WORDS).json()["id"]
        given = {"operation": "decode", "metric": "homepage"}
        assert "This metric declares no values" in text_of(ana.get("/jobs/new", params=given))
        other = text_of(ana.post("/jobs", data=given | {"list": "word to find"}), 422)
        assert "List: 'word to find': string should match pattern" in other
        assert 'aria-invalid="true" aria-describedby="wrong"' in other
        assert '<span class="wrong" id="wrong">' in other
        assert "selected>word to find (does not exist)</option>" in other
        fixed = text_of(ana.get("/jobs/new", params=given | {"list": f"{listed}:1"}))
        assert f'<option value="{listed}:1" selected>words to find, version 1, pinned' in fixed
        made = ana.post("/jobs", data=given | {"list": listed})
        assert made.status_code == 303
        assert listed in text_of(ana.get(made.headers["location"]))


def test_forms_ask_for_the_metric_first_and_errors_use_their_labels(idle: Running) -> None:
    wrong = {
        "/jobs": {"metric": "", "alpha_percent": "x", "numbers": "1", "repeats": "0"},
        "/schedules": {"name": "", "numbers": "1", "repeats": "0", "first_day": "x"},
        "/releases": {"name": "", "result": ""},
    }
    given = {"operation": "decode", "metric": "homepage", "every": "day", "name": "one",
             "policy": "", "owner": "one", "audience": "all", "result": "0" * 16}  # fmt: skip
    with signed_in(idle, "ana") as ana:
        for form, fields in wrong.items():
            page = text_of(ana.get(f"{form}/new"))
            needed = r'(?: <span class="needed">(\w+)</span>)?<'
            labels = dict(re.findall(r"<(?:label|h2)[^>]*>([^<]+?)" + needed, page))
            first = "Results" if form == "/releases" else "Metric"
            assert next(iter(labels.items())) == (first, "required")
            assert "<summary>Advanced</summary>" in page
            for name, value in fields.items():
                answer = text_of(ana.post(form, data=given | {name: value}), 422)
                said = re.search('role="alert">([^:]+): ', answer)
                assert said, (form, name)
                assert said[1] in labels, (form, name, said[1])
                assert "should have" not in answer


def test_a_job_knows_its_kind_by_its_metric(idle: Running) -> None:
    listed = as_listed(idle)
    set_metrics(idle, [*listed, listed[-1] | {"name": "time", "definition": {"kind": "number"}}])
    with signed_in(idle, "ana") as ana:
        assert text_of(ana.get("/jobs/new")).count('<option value="time">') == 1
        given = {"metric": "time", "kind": "string", "operation": "discover"}
        refused = ana.post("/jobs", data=given)
        assert "of kind number" in text_of(refused, 422)


def test_the_newest_windows_are_compared_first(pages: Pages) -> None:
    for asked in ("/compare", f"/compare?after={pages.new}"):
        page = pages.text(asked)
        assert f'<option value="{pages.old}" selected>' in page.partition("Later")[0]
        assert f'<option value="{pages.new}" selected>' in page.partition("Later")[2]
        assert "Compute the difference" in page
    assert "Compute the difference" not in pages.text(f"/compare?after={pages.old}")


def test_every_candidate_is_sorted_by_its_share(pages: Pages) -> None:
    page = pages.text(f"/results/{pages.old}?all=1&sort=-share")
    shares = [float(share) for share in re.findall(r"</th><td>([\d.]+) %</td>", page)]
    assert (len(shares), shares) == (50, sorted(shares, reverse=True))


def test_the_navigation_is_two_short_groups(pages: Pages) -> None:
    for who, sizes in (("root", [5, 5]), ("ana", [5, 3]), ("vic", [5])):
        page = pages.text("/metrics", who)
        groups = re.findall(r'<ul id="\w+" popover.*?</ul>', page, re.DOTALL)
        assert [group.count("<li>") for group in groups] == sizes


def test_levels_are_given_in_per_cent() -> None:
    for typed, share in (("5", "0.05"), ("99.9 %", "0.999"), ("0,1", "0.001")):
        form = Posted({"alpha_percent": [typed]}, {})
        assert share_of_percent(form, "alpha_percent", "Level") == share
        assert choices_of_form(form) == {"alpha": share}
    for share, shown in (("0.05", "5"), ("0.999", "99.9"), ("0.001", "0.1"), ("x", "x")):
        assert percent_of_share(share) == shown
    for typed in ("0", "100", "x", "nan", "-1"):
        with pytest.raises(FieldError, match=r"Level of the intervals: .* percent"):
            choices_of_form(Posted({"level_percent": [typed]}, {}))


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://tiles.example:8443/{z}/{x}/{y}.png?key=1", "https://tiles.example:8443"),
        ("/tiles/{z}/{x}/{y}.png", "'self'"),
        ("https://tiles.example/world.pmtiles?v=2", "https://tiles.example"),
    ],
)
def test_the_policy_of_pages_allows_the_named_server_alone(tmp_path, url, source) -> None:
    database = f"sqlite:///{tmp_path}/d.sqlite"
    with running(database, tick_seconds=0, tiles=url) as served, served.client("ana") as ana:
        policy = ana.get("/jobs", headers={"accept": "text/html"}).headers[
            "content-security-policy"
        ]
    kind = "connect-src" if "pmtiles" in url else "img-src"
    assert policy.endswith(f"; {kind} 'self' {source}")
    assert policy.startswith("default-src 'self'; base-uri 'none'; object-src 'none'; ")


@pytest.mark.parametrize(
    "url",
    [
        "https://tiles.example/{z}/{x}.png",
        "//tiles.example/{z}/{x}/{y}.png",
        "javascript:alert({z}{x}{y})",
        "https://tiles.example; script-src *; /{z}/{x}/{y}.png",
        "tiles.pmtiles",
        "https:///{z}/{x}/{y}.png",
    ],
)
def test_other_addresses_are_refused_with_an_example(url: str, tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match=r"tiles = .*: give https://HOST/\{z\}/\{x\}/\{y\}\.png"):
        Tiles(url)
    with pytest.raises(SettingsError, match="tiles = "):
        running(f"sqlite:///{tmp_path}/d.sqlite", tiles=url).__enter__()
