"""A reader finds every page from docs/index.md, and every section of the long page from its top."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def anchor(heading: str) -> str:
    """The anchor that GitHub and the site give to a heading."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def test_the_overview_links_every_page() -> None:
    index = (DOCS / "index.md").read_text()
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", index))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert pages - linked == {"index.md"}


def test_the_contents_of_the_evaluation_are_its_sections() -> None:
    text = (DOCS / "evaluation.md").read_text()
    sections = [one for one in re.findall(r"^## (.+)$", text, re.M) if one != "Contents"]
    contents = text.partition("## Contents")[2].partition("\n## ")[0]
    assert re.findall(r"^- \[(.+)\]\(#(.+)\)$", contents, re.M) == [
        (one, anchor(one)) for one in sections
    ]
