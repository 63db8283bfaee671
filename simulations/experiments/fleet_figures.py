"""Pictures of `processes`, `homepages` and `parameters`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from metric_design.detection import by_itself, detection, interference
from simulations.experiments.figure_style import (
    FAINT,
    HATCHES,
    LINES,
    TRUTH,
    new_figure,
    save,
    style,
)
from simulations.experiments.homepages import (
    PAPER_FOUND,
    PAPER_SMALLEST,
    RULES,
    Homepages,
    setting,
    shares_of,
)
from simulations.experiments.parameters import EQUAL, SWEEPS
from simulations.experiments.parameters import Row as ParameterRow
from simulations.experiments.processes import HANDLINGS, MARKED, TOP, Processes

SYMBOLS = {
    "num_hashes": "h, hashes",
    "num_bits": "k, bits",
    "num_cohorts": "m, cohorts",
    "prob_f": "f, permanent noise",
    "prob_p": "p, P(1 for a permanent 0)",
    "prob_q": "q, P(1 for a permanent 1)",
}
BINS = 12  # of users, in which points of detection are averaged


def draw_processes(result: Processes, path: Path) -> None:
    """Left: the ten of one run, as the paper's table; right: stated and real errors."""
    figure = new_figure(
        f"Ten processes in {result.shown.summary.num_reports:,} reports of "
        f"{result.devices:,} machines",
        "k = 128, h = 2, m = 8, f = p = .5, q = .75, epsilon of a report 1.07. How reports repeat "
        "decides how far estimates vary.",
        (13, 5.6),
    )
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    _draw_ten(left, result)
    _draw_errors(right, result)
    save(figure, path)


def _draw_ten(panel: Axes, result: Processes) -> None:
    table, at = result.shown.candidates, np.arange(len(TOP))
    bars = panel.bar(at, 100 * np.array(TOP), color=TRUTH, width=0.8, label="true share")
    bars[MARKED].set(hatch="//", edgecolor=LINES[0]["color"], label="the marked one, 2.6 %")
    top = slice(len(TOP))
    for found, mark, label in ((True, "o", "found, 95 % interval"), (False, "x", "not found")):
        some = np.flatnonzero(table.detected[top] == found)
        if len(some):
            middle = table.estimate[top][some]
            reach = [middle - table.low[top][some], table.high[top][some] - middle]
            panel.errorbar(
                at[some], 100 * middle, yerr=100 * np.abs(reach), fmt=mark, capsize=3,
                color=LINES[0]["color"] if found else FAINT, label=label,
            )  # fmt: skip
    panel.set_xticks(at, [str(i + 1) for i in at])
    panel.set_ylim(0)
    style(
        panel, "One collection, each process once", "the ten most frequent", "share of reports, %"
    )
    panel.legend(frameon=False, fontsize=9, loc="upper right")


def _draw_errors(panel: Axes, result: Processes) -> None:
    """Stated error over real one, by way and handling, with the interval of the real one."""
    rows = {(row.way, row.handling): row for row in result.rows}
    ways = list(dict.fromkeys(row.way for row in result.rows))
    for i, handling in enumerate(HANDLINGS):
        some = [rows[way, handling] for way in ways]
        ratio = np.array([row.stated / row.real for row in some])
        reach = 1.96 * ratio * np.array([row.real_error / row.real for row in some])
        at = np.arange(len(ways)) + 0.16 * (i - 1.5)
        line = {**LINES[i], "linestyle": "none"}
        panel.errorbar(at, ratio, yerr=reach, capsize=3, markersize=7, label=handling, **line)
        for place, row, value, up in zip(at, some, ratio, reach, strict=True):
            panel.annotate(
                f"{row.coverage:.0%}", (place, value + up), (0, 3), textcoords="offset points",
                ha="center", fontsize=8, color=FAINT,
            )  # fmt: skip
    panel.axhline(1, color="black", linewidth=0.8)
    names = [f"{way}\n$\\rho$ = {rows[way, HANDLINGS[0]].rho:.1f}" for way in ways]
    panel.set_xticks(np.arange(len(ways)), names)
    low, high = panel.get_ylim()
    panel.set_ylim(low - 0.35 * (high - low), high + 0.05)  # room for the legend
    style(
        panel, "Stated over real error of the ten (1: equal); per cent: coverage of 95 % intervals",
        "what the machines report", "stated standard error / real error",
    )  # fmt: skip
    panel.legend(
        frameon=False,
        fontsize=9,
        title="what the decoder assumes of the reports",
        loc="lower left",
        ncols=2,
    )


def draw_homepages(result: Homepages, path: Path) -> None:
    """Left: chance of detection against users; right: how many are found, true and false."""
    needed = round(result.rows[0].half_power, -3)
    figure = new_figure(
        f"Home pages: a page needs some {needed:,.0f} of {result.devices:,} users, not 14,000",
        "k = 128, h = 2, m = 32, f = .75, p = .5, q = .75, 8,616 candidates. "
        "The paper names 31 pages, the smallest with about 14,000 users.",
        (13, 5.8),
    )
    left, right = figure.subplots(1, 2)
    _draw_detection(left, result)
    _draw_numbers(right, result)
    save(figure, path)


def _draw_detection(panel: Axes, result: Homepages) -> None:
    users = np.geomspace(2_000, 1_000_000, 200)
    shares = shares_of("as the paper shows")
    for rule, line in zip((RULES[0], RULES[2]), (LINES[0], LINES[2]), strict=True):
        plan = setting(result.devices, 1, rule)
        left = interference(setting(result.devices, 1, RULES[0]), shares[shares > 0])
        curve = detection(plan, users / result.devices, by_itself(plan, left))
        panel.plot(users, curve, label=f"{rule}, theory", **{**line, "marker": ""})
        edges = np.geomspace(3_000, 1_000_000, BINS + 1)
        bins = np.digitize(result.users, edges)
        for one in range(1, BINS + 1):
            mine = bins == one
            if mine.sum() >= 5:
                part = result.found[rule][mine].mean()
                low, high = binom_interval(int(result.found[rule][mine].sum()), int(mine.sum()))
                panel.errorbar(
                    result.users[mine].mean(), part, yerr=[[part - low], [high - part]],
                    capsize=2, **{**line, "linestyle": "none"},
                )  # fmt: skip
    monthly = setting(result.devices, 30, RULES[0])
    panel.plot(
        users, detection(monthly, users / result.devices, by_itself(monthly)),
        label="Bonferroni, 30 reports a device", **{**LINES[4], "marker": ""},
    )  # fmt: skip
    panel.axvline(PAPER_SMALLEST, color="black", linewidth=0.9)
    panel.annotate("smallest of the paper ", (PAPER_SMALLEST, 1.03), ha="right", fontsize=9)
    panel.set_xscale("log")
    panel.set_ylim(-0.02, 1.08)
    panel.set_xlim(2_000, 3_000_000)  # room for the legend
    style(panel, "Who is found (points: simulated, 95 %)", "users of a page", "chance to be found")
    panel.legend(frameon=False, fontsize=9, loc="center right", bbox_to_anchor=(1, 0.4))


def binom_interval(hits: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, which always contains the share itself."""
    z, share = 1.96, hits / total
    middle = (hits + z**2 / 2) / (total + z**2)
    reach = z / (total + z**2) * (hits * (total - hits) / total + z**2 / 4) ** 0.5
    return max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach))


def _draw_numbers(panel: Axes, result: Homepages) -> None:
    names = list(dict.fromkeys((row.distribution, row.reports_each) for row in result.rows))
    width = 0.26
    for i, rule in enumerate(RULES):
        rows = [row for row in result.rows if row.rule == rule]
        at = np.arange(len(names)) + width * (i - 1)
        color: Any = LINES[i]["color"]
        panel.bar(at, [r.found for r in rows], width * 0.92, color=color, label=rule)
        panel.bar(
            at, [r.false for r in rows], width * 0.92, bottom=[r.found for r in rows],
            color="white", edgecolor=color, hatch=HATCHES[1],
        )  # fmt: skip
        for place, row in zip(at, rows, strict=True):
            panel.annotate(
                f"{row.found:.0f}" + (f"+{row.false:.0f}" if row.false >= 0.5 else ""),
                (place, row.found + row.false), (0, 3), textcoords="offset points", ha="center",
                fontsize=7.5, zorder=5, bbox={"fc": "white", "ec": "none", "pad": 0.2},
            )  # fmt: skip
    panel.axhline(PAPER_FOUND, color="black", linewidth=0.9, label="31, the paper's")
    words = [f"{name}" + (f",\n{each} reports each" if each > 1 else "") for name, each in names]
    panel.set_xticks(np.arange(len(names)), [word.replace("one page", "one\npage").replace(
        "paper shows", "paper\nshows") for word in words], fontsize=9)  # fmt: skip
    style(panel, "What each rule finds: true, and false (hatched, +)", "distribution of the users",
          "pages found (square-root scale)")  # fmt: skip
    panel.set_yscale("function", functions=(np.sqrt, np.square))
    panel.set_yticks((0, 10, 31, 100, 200))
    panel.legend(frameon=False, fontsize=9, loc="upper left", ncols=2, columnspacing=1,
                 handlelength=1.2)  # fmt: skip
    panel.set_ylim(0, 1.5 * max(row.found + row.false for row in result.rows))


def draw_parameters(rows: list[ParameterRow], path: Path) -> None:
    """Draw a panel for each parameter, one of false discoveries, and one against epsilon."""
    figure = new_figure(
        "What each parameter buys: values found of 100, and what they cost",
        f"The paper's exponential population, {rows[0].runs} runs a setting, Bonferroni at 5 %; "
        "others at k = 128, h = 2, m = 16, f = p = .5, q = .75. Lines: predicted by rappor plan.",
        (15, 7.6),
    )
    panels = figure.subplots(2, 4)
    for panel, (name, label) in zip(panels.flat, SYMBOLS.items(), strict=False):
        _draw_sweep(panel, [row for row in rows if row.parameter == name], label)
    equal = [row for row in rows if row.parameter == EQUAL]
    _points(panels[0, 0], equal, LINES[1], "at equal epsilons")
    panels[0, 0].legend(frameon=False, fontsize=8, loc="upper left")
    _draw_false(panels[1, 2], [row for row in rows if row.parameter == "prob_f"])
    _draw_epsilon(panels[1, 3], rows)
    top = 1.1 * max(row.found for row in rows)
    for panel in (*panels[0], panels[1, 0], panels[1, 1], panels[1, 3]):
        panel.set_ylim(0, top)
    save(figure, path)


def _draw_sweep(panel: Axes, rows: list[ParameterRow], label: str) -> None:
    _points(panel, rows, LINES[0], "same f, p, q" if "hashes" in label else "")
    if rows[0].parameter.startswith("num"):
        panel.set_xscale("log", base=2)
        values = SWEEPS[rows[0].parameter]
        panel.set_xticks(values, [f"{value:g}" for value in values])
    style(panel, label.partition(",")[0], label, "found of 100")


def _points(panel: Axes, rows: list[ParameterRow], line: Any, label: str) -> None:
    at = [row.value for row in rows]
    panel.plot(at, [row.predicted for row in rows], **{**line, "marker": "", "linewidth": 1})
    panel.errorbar(
        at, [row.found for row in rows], yerr=[1.96 * row.error for row in rows], capsize=2,
        markersize=5, label=label, **{**line, "linestyle": "none"},
    )  # fmt: skip


def _draw_false(panel: Axes, rows: list[ParameterRow]) -> None:
    at = [row.value for row in rows]
    labels = ("Bonferroni, 5 %", "false discovery rate, 5 %", "two standard errors")
    for i, (rule, label) in enumerate(zip(("bonferroni", "bh", "two_errors"), labels, strict=True)):
        parts = [100 * getattr(row, f"proportion_{rule}") for row in rows]
        panel.plot(at, parts, label=label, **LINES[i])
    panel.axhline(5, color="black", linewidth=0.7)
    style(panel, "false discoveries against f", "f, permanent noise", "of those found, % false")
    panel.legend(frameon=False, fontsize=8, loc="best")


def _draw_epsilon(panel: Axes, rows: list[ParameterRow]) -> None:
    for i, (name, label) in enumerate(SYMBOLS.items()):
        some = [row for row in rows if row.parameter == name]
        panel.plot(
            [row.epsilon_one for row in some], [row.found for row in some],
            label=label.partition(",")[0], markersize=5, **{**LINES[i], "linestyle": "none"},
        )  # fmt: skip
    panel.set_xscale("log", base=2)
    ticks = (0.25, 0.5, 1, 2, 4, 8)
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    style(panel, "all settings", "epsilon of a report, nats", "found of 100")
    panel.legend(frameon=False, fontsize=8, ncols=2, loc="best")
