"""The pages as text: who sees what, escaping, the policy, forms, tables."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from decoder import Candidates, decode, write_outputs
from decoder.kinds.values import decoding_result
from decoder_service.jobs.specs import JobSpec
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.decoder_service.support import Running, keep_result, result_row, running
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
    """The service, browsers of its people, and results of ana's; `other`: of another version."""

    service: Running
    browsers: dict[str, httpx.Client]
    old: str
    new: str
    other: str

    def text(self, path: str, name: str = "ana", status: int = 200) -> str:
        answer = self.browsers[name].get(path)
        assert answer.status_code == status, answer.text[:500]
        return answer.text


def decoded(folder: Path, number: int) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Files and summary of a decoding of one week."""
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


def stored(
    service: Running, number: int, files: dict[str, bytes], summary: Any, params_id: str = ""
) -> str:
    """The id of a result of ana's."""
    manifest = json.loads(files["manifest.json"])
    spec = JobSpec.model_validate(
        {
            "operation": "decode",
            "source": {"aggregates": ["a" * 64]},
            "candidates": {"numbers": [0, 5]},
        }
    )
    inputs = {"aggregates": [["a" * 64]], "candidates": None}
    made = {"spec": spec.model_dump(mode="json"), "inputs": inputs, "notes": []}
    row = result_row(
        f"{number:016x}",
        metric="word",
        params_id=params_id or manifest["params_id"],
        first_day=manifest["first_day"],
        last_day=manifest["last_day"],
        manifest=json.dumps(made),
        summary=json.dumps(summary),
        created=1_790_000_000.0 + number,
    )
    return keep_result(service, row, files, "ana")


def signed_in(service: Running, name: str) -> httpx.Client:
    """A browser of a person."""
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
        files, summary = weeks[0]
        other = stored(service, 9, files, summary, "f" * 32)
        browsers = {name: signed_in(service, name) for name in ("ana", "ben", "vic", "root")}
        made = browsers["ana"].post("/lists", data={"name": f"{BAD}", "values": "a\nb"})
        assert made.status_code == 303, made.text
        yield Pages(service, browsers, old, new, other)
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
        for elsewhere in (
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "javascript:1",
        ):
            answer = client.post(
                "/sign-in",
                data={"key": pages.service.keys["ana"], "next": elsewhere},
                headers={"Origin": pages.service.url},
            )
            assert answer.headers["location"] == "/metrics", elsewhere
        wrong = client.post(
            "/sign-in", data={"key": "rd_no"}, headers={"Origin": pages.service.url}
        )
        assert wrong.status_code == 401
        assert "unknown to this decoder service, or revoked" in wrong.text


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
    assert "Every candidate" not in page
    pages.text(f"/compare?before={pages.old}&after={pages.new}", "vic", 404)
    assert pages.browsers["ana"].post(release).status_code == 303
    pages.text(f"/results/{pages.old}", "vic", 404)


def test_wrong_forms_say_why_and_keep_fields(pages: Pages) -> None:
    given = {
        "operation": "decode",
        "aggregates": "f" * 64,
        "numbers": "0:7",
        "alpha_percent": "700",
    }
    answer = pages.browsers["ana"].post("/jobs", data=given)
    assert answer.status_code == 422
    said = "Level of the correction: '700' is not a number of per cent between 0 and 100"
    assert said in unescape(answer.text)
    assert 'value="700" aria-invalid="true"' in answer.text
    assert 'name="numbers" value="0:7"' in answer.text
    missing = pages.browsers["ana"].post("/jobs", data=given | {"alpha_percent": "10"})
    assert missing.status_code == 404
    assert "there is no aggregate" in unescape(missing.text)
    nothing = pages.browsers["ana"].post("/lists", data={"name": "empty"})
    assert nothing.status_code == 422
    assert "choose a file" in nothing.text


def test_tables_are_searched_and_sorted_by_address(pages: Pages) -> None:
    result = f"/results/{pages.old}"

    def values(query: str) -> list[str]:
        page = pages.text(result + query)
        return re.findall(r'<th scope="row" dir="auto">(.*?)</th>', page)

    found = values("")
    assert len(found) >= 4
    assert values("?sort=share") == found[::-1]
    assert values("?q=PLAIN") == ["plain"]
    assert values("?rows=3&page=2") == found[3:6]
    assert len(values("?all=1")) == 50
    assert values("?all=1&q=none9&sort=value") == ["none9", *(f"none9{i}" for i in range(10))]
    for odd in ("?page=x&rows=-1", "?sort=nothing", "?page=99999999999", "?q=%00%ff", "?rows=1e9"):
        values(odd)


def test_two_results_are_compared_by_a_job(pages: Pages) -> None:
    path = f"/compare?before={pages.old}&after={pages.new}"
    fields = [
        (name, unescape(value))
        for name, value in re.findall(r'type="hidden" name="(.*?)" value="(.*?)"', pages.text(path))
    ]
    assert {name for name, _ in fields} >= {"kind", "aggregates", "before_aggregates"}
    assert ("operation", "compare") in fields
    same = pages.text(f"/compare?before={pages.old}&after={pages.old}", status=422)
    assert "share days" in same
    other = pages.text(f"/compare?before={pages.other}&after={pages.old}", status=422)
    assert "different versions" in other


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
