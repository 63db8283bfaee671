"""docs/claims.md holds the names of tests: each of its pages, headings and tests exists, and no
user page names a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.architecture.test_docs_contents import anchor

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Pages for who works on the code, and the table itself.
INTERNAL = {"claims.md", "architecture.md"}
USER_PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if page.name not in INTERNAL),
]
NAME_OF_A_TEST = re.compile(
    r"\btests/(?!vectors\b)[\w/.]+|(?<!def )\btest_[a-z]\w+|[\w/]+\.test\.mjs"
)
ROW = re.compile(r"^\| (?P<claim>.+?) \| \[\w+\]\((?P<page>[\w/]+\.md)#(?P<anchor>[\w-]+)\) "
                 r"\| (?P<tests>`.+`) \|$")  # fmt: skip


def rows(text: str) -> list[str]:
    """The lines of all tables, without their heads."""
    return [
        line
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith(("| claim |", "|---"))
    ]


def headings(page: Path) -> set[str]:
    """The anchors of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}


def faults_of(row: str) -> list[str]:
    """What a row of the table names that does not exist."""
    match = ROW.match(row)
    if match is None:
        return [f"not '| claim | [page](page.md#anchor) | `test` |': {row}"]
    faults = []
    page = DOCS / match["page"]
    if not page.exists():
        faults.append(f"no page {match['page']}")
    elif match["anchor"] not in headings(page):
        faults.append(f"no heading #{match['anchor']} in {match['page']}")
    for test in re.findall(r"`(.+?)`", match["tests"]):
        path, _, function = test.partition("::")
        file = ROOT / path
        if not file.is_file():
            faults.append(f"no file {path}")
        elif function and not re.search(rf"^(?:async )?def {function}\(", file.read_text(), re.M):
            faults.append(f"no test {function} in {path}")
    return faults


def test_every_row_of_the_claims_leads_somewhere() -> None:
    table = rows((DOCS / "claims.md").read_text(encoding="utf-8"))
    assert table
    assert [fault for row in table for fault in faults_of(row)] == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| a | [x](nowhere.md#a) | `tests/conftest.py` |", "no page nowhere.md"),
        ("| a | [x](claims.md#no) | `tests/conftest.py` |", "no heading #no in claims.md"),
        ("| a | [x](claims.md#claims) | `tests/gone.py` |", "no file tests/gone.py"),
        (
            "| a | [x](claims.md#claims) | `tests/conftest.py::test_gone` |",
            "no test test_gone in tests/conftest.py",
        ),
        ("| a | [x](claims.md#claims) | none |", "not '| claim |"),
    ],
)
def test_a_row_that_leads_nowhere_is_named(row: str, fault: str) -> None:
    [found] = faults_of(row)
    assert found.startswith(fault)


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.name)
def test_no_user_page_names_a_test(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = NAME_OF_A_TEST.findall(text)
    assert named == [], f"{page.name}: a claim names its test in docs/claims.md alone"


def test_vectors_may_be_named_and_tests_not() -> None:
    assert not NAME_OF_A_TEST.search("see tests/vectors/v1/places.json")
    for name in ("tests/core/test_x.py", "`test_a_thing`", "client_js/test/a.test.mjs"):
        assert NAME_OF_A_TEST.search(name), name
