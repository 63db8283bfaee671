"""The record format of all benchmarks: our figure beside that of a named rival, from the same
run.

A script of `benchmarks/` prints comparisons and writes them as JSON lines; `rappor bench` puts
those of all scripts on one page.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

HEADINGS = ("measured", "ours", "beside it", "times as good", "target", "notes")
ABOUT = """\
# Benchmarks

Written by `rappor bench --markdown docs/benchmarks.md`, all parts or those that it names; do not
edit it. A part that was not run again keeps its lines. `--small` runs a short form that takes
minutes.

Each line stands beside a named rival of the same run, if it has one; rounds of both alternate.
Figures are medians, with the least and the most in parentheses. "Times as good" is the ratio of the
two, above 1 where ours is quicker, smaller or nearer: the median over the rounds, with quartiles.
Seconds are of processor time, user and system, of all processes and threads, unless the line says
"by the clock": other work on the machine changes the first less, and ratios in one run least. A
target is the ratio (or, without a rival, the figure) that the project holds itself to.
"""


class Spread(NamedTuple):
    """A median with its quartiles."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """One measured line of a benchmark: our figures and those of a rival.

    part: the script.  name: what was measured.  unit: of both figures.
    ours, theirs: a figure for each round; `theirs` of `rival`, or none.  more: more is better.
    target: of the ratio, or of ours where there is no rival.  note: what else was seen, or why
    nothing was measured, where `ours` is empty.
    """

    part: str
    name: str
    unit: str = ""
    ours: tuple[float, ...] = ()
    rival: str = ""
    theirs: tuple[float, ...] = ()
    more: bool = False
    target: float | None = None
    note: str = ""

    @property
    def ratio(self) -> Spread | None:
        """How many times better our figure is than the rival's; None without a rival, or where
        one figure is 0."""
        if not self.ours or not self.theirs or min(*self.ours, *self.theirs) <= 0:
            return None
        paired = len(self.ours) == len(self.theirs)
        pairs = list(zip(self.ours, self.theirs, strict=True)) if paired else [
            (statistics.median(self.ours), statistics.median(self.theirs))
        ]  # fmt: skip
        ratios = [own / other if self.more else other / own for own, other in pairs]
        return _quartiles(ratios)

    @property
    def reached(self) -> bool | None:
        """Whether the target was reached; None where there is none, or nothing was measured."""
        if self.target is None or not self.ours:
            return None
        if self.rival:
            return self.ratio is not None and self.ratio.middle >= self.target
        own = statistics.median(self.ours)
        return own >= self.target if self.more else own <= self.target


@dataclass(frozen=True)
class BenchMachine:
    """The machine on which benchmarks ran; versions: of libraries, by name."""

    processor: str
    cores: int
    memory: str
    system: str
    python: str
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """The results of one benchmark script. command: that ran it. date, load: when, and beside
    how much other work."""

    name: str
    command: str
    date: str
    load: str
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Page:
    """The content of the page of benchmarks."""

    machine: BenchMachine
    parts: tuple[Part, ...]

    def with_parts(self, machine: BenchMachine, parts: Sequence[Part]) -> Page:
        """A copy of the page with these parts in place of their earlier results, sorted by name."""
        every = {part.name: part for part in (*self.parts, *parts)}
        return Page(machine, tuple(every[name] for name in sorted(every)))

    def to_json(self) -> str:
        """The whole page as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Page:
        """Read a page from the JSON that `to_json` writes."""
        told = json.loads(text)
        parts = tuple(
            Part(**part | {"comparisons": tuple(map(comparison, part["comparisons"]))})
            for part in told["parts"]
        )
        return cls(BenchMachine(**told["machine"]), parts)

    def markdown(self) -> str:
        """The page as Markdown text."""
        lines = [ABOUT, *_described(self.machine)]
        for part in self.parts:
            told = f"`{part.command}`, {part.date}, load average {part.load}."
            lines += ["", f"## {part.name}", "", told, ""]
            lines += [_row(HEADINGS), _row(["---"] * len(HEADINGS))]
            lines += [_row(_cells(one)) for one in part.comparisons]
        return "\n".join(lines) + "\n"


def comparison(row: dict[str, Any]) -> Comparison:
    """Read a Comparison from its JSON object."""
    return Comparison(**row | {name: tuple(row[name]) for name in ("ours", "theirs")})


def line(one: Comparison) -> str:
    """One comparison as a line for the terminal."""
    name, ours, theirs, ratio, target, note = _cells(one)
    text = f"  {name}: {ours or 'not run'}"
    text += f"; {theirs}" if theirs else ""
    text += f"; {ratio} times as good" if ratio else ""
    text += f" (target: {target})" if target else ""
    return text + (f"; {note}" if note else "")


def _cells(one: Comparison) -> list[str]:
    ratio, reached = one.ratio, one.reached
    target = "" if one.target is None else _number(one.target)
    if target and not one.rival:
        target += f" {one.unit}"
    return [
        one.name,
        _figures(one.ours, one.unit),
        f"{one.rival}: {_figures(one.theirs, one.unit)}" if one.rival else "",
        "" if ratio is None else _spread(ratio),
        target + (", missed" if reached is False else ""),
        one.note,
    ]


def _described(machine: BenchMachine) -> Iterable[str]:
    yield f"Machine: {machine.processor}, {machine.cores} cores, {machine.memory} of memory,"
    yield f"{machine.system}, Python {machine.python}."
    if machine.versions:
        yield "Libraries: " + ", ".join(f"{k} {v}" for k, v in machine.versions.items()) + "."


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _figures(values: Sequence[float], unit: str) -> str:
    """The median, and the least and the most where there are several."""
    if not values:
        return ""
    middle = f"{_number(statistics.median(values))} {unit}".rstrip()
    if len(values) == 1:
        return middle
    return f"{middle} ({_number(min(values))} to {_number(max(values))})"


def _spread(spread: Spread) -> str:
    low, middle, high = map(_number, spread)
    return middle if low == middle == high else f"{middle} ({low} to {high})"


def _quartiles(values: Sequence[float]) -> Spread:
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, middle, high)


def _number(value: float) -> str:
    """Three digits; whole thousands with commas."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"
