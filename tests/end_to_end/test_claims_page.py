"""docs/claims.md holds the names of tests: each of its pages, headings and tests exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROW = re.compile(r"^\| (?P<claim>.+?) \| \[\w+\]\((?P<page>[\w/]+\.md)#(?P<anchor>[\w-]+)\) "
                 r"\| (?P<tests>`.+`) \|$")  # fmt: skip


def rows(text: str) -> list[str]:
    """The lines of all tables, without their heads."""
    return [
        line
        for line in text.splitlines()
        if line.startswith("|") and not line.startswith(("| claim |", "|---"))
    ]


def anchor(heading: str) -> str:
    """The anchor that GitHub and the site give to a heading."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


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
