"""The command that adds a run to docs/benchmarks.md: `python -m benchmarks.page RUN.json`.

A part is a file `bench_PART.py`. The rows of the run's parts are replaced. Other parts keep their
rows, with the commit and day of measurement. docs/benchmarks.json stores the rows."""

import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ROWS, PAGE = ROOT / "docs" / "benchmarks.json", ROOT / "docs" / "benchmarks.md"
MAX_ROWS = 60
OURS = "ours"
HEADINGS = ("measured", "ours", "alongside it", "times as good", "target", "note")
ABOUT = """\
# Benchmarks

`make bench` writes this page; do not edit it. `make bench BENCH=encode` measures one part again.

Each row compares this project with a named rival in the same run, if there is one: medians, with
minimum and maximum in parentheses, and the ratio of the medians (above 1, this project is faster,
smaller or more accurate). Times are processor time; for records and requests, elapsed time.
Compare ratios, not seconds: other work on the machine affects them least.
"""


@dataclass(frozen=True)
class Row:
    """This project's figure next to a rival's figure."""

    part: str
    measured: str
    unit: str
    ours: Sequence[float]  # Median, minimum and maximum, in `unit`
    rival: str = ""
    theirs: Sequence[float] = ()  # Likewise for the rival; empty if there is none
    more: bool = False  # Whether a higher figure is better
    target: float | None = None  # The target of the ratio
    note: str = ""
    state: str = ""  # The commit and day of measurement

    @property
    def ratio(self) -> float | None:
        """Return how many times better our median is; None without a rival or if a figure is 0."""
        if not self.theirs or min(self.ours[0], self.theirs[0]) <= 0:
            return None
        ratio = self.theirs[0] / self.ours[0]
        return 1 / ratio if self.more else ratio

    def cells(self) -> list[str]:
        """Return the strings of the row's cells, in the order of the headings."""
        ratio, target = self.ratio, ""
        if self.target is not None:
            missed = ratio is not None and ratio < self.target
            target = number_text(self.target) + ", missed" * missed
        rival = f"{self.rival}: {figures_text(self.theirs, self.unit)}" if self.rival else ""
        ours = figures_text(self.ours, self.unit)
        return [self.measured, ours, rival, "" if ratio is None else number_text(ratio),
                target, self.note]  # fmt: skip


def rows_of(run: Mapping[str, Any], state: str) -> Iterator[Row]:
    """Yield the rows of a pytest-benchmark run: ours next to each rival in the group."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for bench in run["benchmarks"]:
        groups.setdefault(bench["group"], []).append(bench)
    for measured, members in groups.items():
        base = next((member for member in members if member["extra_info"]["who"] == OURS), None)
        if base is None:  # Only rivals were measured
            continue
        rivals = [member for member in members if member is not base]
        match = re.search(r"bench_(\w+)\.py", base["fullname"])
        part = match[1] if match else ""
        extra = base["extra_info"]
        more = {key: extra[key] for key in ("more", "note") if key in extra}
        for cut, unit, ours in _figures(base):
            name = f"{measured}, {cut}" if cut else measured
            for rival in rivals:
                info = rival["extra_info"]
                theirs = next(row for their, _, row in _figures(rival, unit) if their == cut)
                yield Row(part, name, unit, ours, info["who"], theirs, state=state,
                          target=info.get("target"), **more)  # fmt: skip
            if not rivals:
                yield Row(part, name, unit, ours, state=state, **more)


def _figures(
    bench: Mapping[str, Any], unit: str | None = None
) -> Iterator[tuple[str, str, Sequence[float]]]:
    """Yield a benchmark's quantile name (or ""), its unit, and median, minimum and maximum."""
    info, stats = bench["extra_info"], bench["stats"]
    if "values" in info:
        values = info["values"]
        yield "", info["unit"], (statistics.median(values), min(values), max(values))
        return
    times = [("", (stats["median"], stats["min"], stats["max"]))]
    times = [(name, (time,)) for name, time in info["cuts"].items()] if "cuts" in info else times
    for name, figures in times:
        scale = unit or next((u for u in ("s", "ms") if figures[0] >= _SECONDS[u]), "us")
        yield name, scale, tuple(time / _SECONDS[scale] for time in figures)


_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def page_of(machine: str, rows: Sequence[Row]) -> str:
    """Return the page as Markdown. Raises ValueError if there are more than 60 rows."""
    if len(rows) > MAX_ROWS:
        raise ValueError(f"{len(rows)} rows are more than the {MAX_ROWS} that the page may have")
    lines = [ABOUT, machine]
    for part in dict.fromkeys(row.part for row in rows):
        members = [row for row in rows if row.part == part]
        states = ", ".join(dict.fromkeys(row.state for row in members))
        lines += ["", f"## {part}", "", f"`make bench BENCH={part}`, {states}.", ""]
        lines += [_line(HEADINGS), _line(["---"] * len(HEADINGS))]
        lines += [_line(row.cells()) for row in members]
    return "\n".join(lines) + "\n"


def figures_text(values: Sequence[float], unit: str) -> str:
    """Format the median, with the minimum and maximum if they differ."""
    middle = f"{number_text(values[0])} {unit}"
    if len(values) == 1 or values[1] == values[2]:
        return middle
    return f"{middle} ({number_text(values[1])} to {number_text(values[2])})"


def number_text(value: float) -> str:
    """Format to three significant digits or as an integer, with thousands separators."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def read_rows() -> tuple[str, list[Row]]:
    """Return the machine and the rows of docs/benchmarks.json."""
    content = json.loads(ROWS.read_text(encoding="utf-8"))
    return content["machine"], [Row(**row) for row in content["rows"]]


def write(machine: str, rows: Sequence[Row]) -> None:
    """Write docs/benchmarks.json and docs/benchmarks.md."""
    text = page_of(machine, rows)
    document = {"machine": machine, "rows": list(map(asdict, rows))}
    ROWS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(text, encoding="utf-8")


def main(path: Path) -> None:
    """Add the rows of a pytest-benchmark run (a JSON file) to the page."""
    run = json.loads(path.read_text(encoding="utf-8"))
    info, cpu = run["machine_info"], run["machine_info"]["cpu"]
    git = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    new = list(rows_of(run, f"at {commit or 'an unknown commit'}, {run['datetime'][:10]}"))
    _, old = read_rows()
    others = [row for row in old if row.part not in {one.part for one in new}]
    machine = (
        f"Machine: {cpu.get('brand_raw', info['machine'])}, {cpu.get('count', '?')} cores, "
        f"{info['system']} {info['release'].split('-')[0]}, Python {info['python_version']}."
    )
    write(machine, sorted([*others, *new], key=lambda row: row.part))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
