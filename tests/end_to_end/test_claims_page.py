"""docs/claims.md holds the names of tests: each of its pages, headings and tests exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROW = re.compile(r"^\| .+? \| \[\w+\]\(([\w/]+\.md)#([\w-]+)\) \| (`.+`) \|$")


def headings(page: Path) -> set[str]:
    """The anchors that GitHub and the site give to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    bare = [re.sub(r"[^\w\s-]", "", one.lower()) for one in re.findall(r"^#+ (.+)$", text, re.M)]
    return {re.sub(r"\s", "-", one.strip()) for one in bare}


def test_every_row_of_the_claims_leads_somewhere() -> None:
    lines = (DOCS / "claims.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    rows = [line for line in rows if not line.startswith(("| claim |", "|---"))]
    assert rows
    for row in rows:
        match = ROW.match(row)
        assert match, row
        page, anchor, tests = match.groups()
        assert anchor in headings(DOCS / page), row
        for test in re.findall(r"`(.+?)`", tests):
            path, _, function = test.partition("::")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert not function or re.search(rf"^(?:async )?def {function}\(", text, re.M), test
