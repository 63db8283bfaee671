"""Refuse words that a reader has to parse, in code, pages and docs: `make lint` runs it.

`CONTRIBUTING.md` says what to write in their place.
"""

import re
import subprocess
import sys
from pathlib import Path

PATTERNS = {
    r'"""(Of|As) ': "begin with a verb or a noun",
    r"\b_?(MOST|LEAST|FEWEST)(_[A-Z]|\b)": "MAX_, MIN_",
    r"\b(told|tells|telling)\b(?! apart)": "reports, reveals, detected",
    r"\bstands?\b(?!-in| out)": "is, appears, represents",
    r"\b([Tt]hat|[Ww]hich|[Ww]hat) (is|are) none\b": "invalid, missing",
    r"\b(that|which|what|it) (is|are) no (?!longer)[a-z]": "is not a",
    r"\b(goes on|go on|begins? anew)\b": "continues, restarts",
    r"\bby (itself|themselves)\b": "automatically, alone, separately",
    r"\bbesides?\b": "next to, in addition to",
    r"(?<!for word )(?<!for w )\bin words\b": "as text",
    r"\bof (its|their|his|our) own\b": "separate, its own ...",
    r"\bways? out\b|\bkeeps? house\b|keep_house|way_out": "hint, maintenance",
    r"\bseldom\b": "rarely",
}
SUFFIXES = (".py", ".md", ".j2", ".ts", ".kt")
# Words of an error in the vectors, which never change; and the two lists of words.
EXCEPT = (
    "CHANGELOG.md", "CONTRIBUTING.md", "docs/tools/words.py", "tests/", "client_js/test/",
    "client_kotlin/test/",
)  # fmt: skip
FROZEN = re.compile(r"stands twice|a device tells in its life|leaves no place beside")


def problems(path: Path) -> list[str]:
    """Return a line for each such word of a file."""
    return [
        f"{path}:{number}: {found[0]!r}: write {better}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for pattern, better in PATTERNS.items()
        if (found := re.search(pattern, FROZEN.sub("", line)))
    ]


if __name__ == "__main__":
    git = ["git", "ls-files"]
    listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout  # noqa: S603
    files = [one for one in listed.split() if one.endswith(SUFFIXES) and not one.startswith(EXCEPT)]
    lines = [line for file in files for line in problems(Path(file))]
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(bool(lines))
