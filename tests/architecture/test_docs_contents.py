"""A reader finds every page from the overview, and derivations by package."""

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


def test_the_evaluation_lists_its_pages() -> None:
    folder = DOCS / "evaluation"
    listed = set(re.findall(r"^\| \[.+?\]\((\w+\.md)\) ", (folder / "index.md").read_text(), re.M))
    assert listed == {page.name for page in folder.glob("*.md")} - {"index.md"}


def test_the_methods_chapters_are_decoder_packages() -> None:
    text = (DOCS / "method.md").read_text()
    *chapters, limits, sources = re.findall(r"^## (.+)$", text, re.M)
    assert (limits, sources) == ("What is not covered", "Sources")
    for package in " and ".join(chapters).lower().split(" and "):
        assert (DOCS.parent / "decoder" / package / "__init__.py").exists(), package


def test_code_names_sections_of_the_method_that_exist() -> None:
    headings = set(re.findall(r"^#+ (.+)$", (DOCS / "method.md").read_text(), re.M))
    packages = [path.parent for path in DOCS.parent.glob("*/py.typed")]
    for path in (path for package in packages for path in package.rglob("*.py")):
        for name in re.findall(r'docs/method\.md, "([^"]+)"', path.read_text(encoding="utf-8")):
            assert " ".join(name.split()) in headings, f"{path}: {name}"
