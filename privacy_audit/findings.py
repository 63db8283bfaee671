"""The findings of simulated attacks on a file's metrics: `rappor metrics check`, `plan`, `density`.

Each finding is a note, or a warning if more than one device in twenty can be identified.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from metric_design.central_privacy import claim_sentences
from metric_design.review import Finding
from privacy_audit.batch_linkage import (
    DAYS,
    MAX_CROWD,
    MEAN_DELAY,
    Arrivals,
    followed_by_address,
    joined_by_time,
    over_days,
    reports_over,
)
from privacy_audit.devices import World
from privacy_audit.linkage_by_life import CROWD as LIFE_CROWD
from privacy_audit.linkage_by_life import (
    WATCHED,
    bound_of_fresh,
    can_be_watched,
    dates_are_reported,
    find_by_life,
    share_that_arrives,
)
from privacy_audit.location_attacks import CROWD, FileAttack, attack_file, attacks_on, reports_in
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.risk import place_groups, public_groups

PERIODS = (1, 7, 30)
PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}
WORRYING = 0.05  # the fraction of devices above which a finding is a warning
WORLDS: tuple[World, World] = ("sparse", "rarely")
COHORTS, TARGETS = 2, 60  # cohorts, and target devices in each: a few seconds of work


def attack_findings(
    file: MetricsFile, population: int, rng: np.random.Generator, *, relay: bool = False
) -> Iterator[Finding]:
    """Yield the findings of all attacks.

    Args:
        file: The file that declares the metrics.
        population: The number of devices that report; each cohort has its share.
        rng: The generator of all draws.
        relay: Whether to report what a relay hides, and what published counts reveal.
    """
    yield from track_findings(file, population, rng)
    if not relay:  # its findings include what bodies alone reveal
        yield from gathering_findings(file, population, rng)
    yield from life_findings(file, population, rng)
    if relay:
        yield from relay_findings(file, population, rng)


def trackability_text(metric: Metric, crowd: int = CROWD) -> str:
    """Return sentences on how many devices both linkage attacks re-link after 1, 7 and 30 periods.

    `crowd` is the number of devices in a cohort; more than `CROWD` are not simulated.
    """
    if metric.max_reports == 1:
        return "Each device reports once in its lifetime, so there is no second report to link."
    size = max(2, min(crowd, CROWD))
    results = attacks_on(metric, PERIODS, size, np.random.default_rng(0))
    what = "value" if metric.location is None else "place"
    parts = [
        f"after {periods} a change of {what} is detected with AUC {result.change_auc:.2f} and "
        f"{result.relinked:.1%} of devices are re-linked"
        for periods, result in zip(PERIODS, results, strict=True)
    ]
    groups, left_out = place_groups(metric), ""
    apart = f" ({groups} groups by level and turn)" if groups > 1 else ""
    if metric.params.mechanism.has_permanent_round:
        left_out = (
            f" An observer who also knows when answers changed, or which {metric.period}s had "
            "data, finds more devices."
        )
    return (
        f"An observer who can link a device's reports over some {metric.period}s, among {size:,} "
        f"devices of a cohort{apart}, learns: {'; '.join(parts)} (by chance: .50 and "
        f"{1 / size:.1%}).{left_out} See docs/location.md."
    )


def track_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Yield warnings of metrics whose reports let devices be followed from year to year.

    `population` is the number of devices expected to report.
    """
    places = []
    for metric in file.declared:
        if metric.location is None or metric.max_reports == 1:
            continue
        places.append(metric)
        result = attack_file([metric], PERIODS_A_YEAR[metric.period], population, rng)
        if result.relinked > WORRYING:
            yield Finding("warning", metric.base_name, _advice(metric, result))
    if len(places) > 1:
        result = attack_file(places, max(PERIODS_A_YEAR[m.period] for m in places), population, rng)
        if result.relinked > WORRYING:
            yield Finding("warning", "", _advice_together(places, result, population))


def _advice(metric: Metric, result: FileAttack) -> str:
    location = metric.location
    assert location is not None  # noqa: S101 (called for location metrics only)
    slots = len(location.slots)
    way = (
        "a longer period, encoding = 'symbol' with few symbols, fewer bits, "
        + ("fewer slots, " if slots > 1 else "")
        + "or mode = 'window'"
        if location.rules.memoizes
        else "fewer cohorts, slots or levels, or a shorter window: when a device answers is public"
    )
    every = f" of each of {slots} slots" if slots > 1 and location.num_turns == 1 else ""
    return (
        f"an observer who links the reports of each year ({reports_in(metric, result.periods)} "
        f"reports{every}) could re-link {result.relinked:.0%} of devices from one year to the "
        f"next, {result.by_groups:.0%} by cohort, level and turn alone; use {way}"
    )


def _advice_together(metrics: Sequence[Metric], result: FileAttack, population: int) -> str:
    names = ", ".join(metric.base_name for metric in metrics)
    return (
        f"the reports of {names} together re-link {result.relinked:.0%} of {population:,} "
        f"devices after a year, {result.by_groups:.0%} by cohorts, levels and turns alone "
        f"({result.groups:,} groups), if an observer knows which batches come from one device; "
        "ask each device for one of them, use fewer cohorts, and send through a relay"
    )


def gathering_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Yield, for each metric, the fraction of devices that can be tracked by report bodies alone.

    `population` is the number of devices that report. A cohort, with its level and scheduled
    period, has its share.
    """
    for metric in file.declared:
        crowd = population / public_groups(metric)
        if metric.max_reports == 1 or reports_over(metric, DAYS[-1]) < 2 or crowd > MAX_CROWD:
            continue  # such a large group is too slow to match, and fewer devices can be tracked
        shares = over_days(metric, population, rng, None)
        percents = ", ".join(
            f"{share:.0%} after {days} days" for days, share in zip(DAYS, shares, strict=True)
        )
        message = (
            "from report bodies alone, an observer collects nine tenths of the reports of some "
            f"devices: {percents}, where about {crowd:,.0f} share cohort, level and turn; use "
            "fewer cohorts, fewer bits, a longer period or max_reports"
        )
        yield _finding(metric.base_name, shares[-1], message)


def relay_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Yield findings on what a relay hides, by metric and times, and what published counts reveal.

    `population` is the number of devices that report through the relay.
    """
    for metric in file.declared:
        if reports_over(metric, DAYS[-1]) > 1:
            yield _behind_relay(metric, population, rng)
    if len(file.declared) > 1:
        share = joined_by_time(population)
        yield _finding(
            "", share,
            "behind a relay, batches of two metrics that a device records at the same moment "
            f"are each other's nearest in time for {share:.2%} of {population:,} devices "
            f"(mean_delay = {MEAN_DELAY:.0f} s); a longer mean_delay joins fewer",
        )  # fmt: skip
    for metric in file.declared:
        for sentence in claim_sentences(metric, population):
            yield Finding("note", metric.base_name, sentence)


def _behind_relay(metric: Metric, population: int, rng: np.random.Generator) -> Finding:
    """Return the finding on one metric, from at most `MAX_CROWD` simulated devices of a group.

    They have the same density in time as the whole group, and are at least as easy to track.
    """
    groups = public_groups(metric)
    drawn = min(population, MAX_CROWD * groups)
    dense = Arrivals()
    dense = replace(dense, length=dense.length * drawn / population)
    bodies, watched = (over_days(metric, drawn, rng, arrivals) for arrivals in (None, dense))
    addressed = followed_by_address(DAYS, rng)

    def in_words(shares: Sequence[float]) -> str:
        return ", ".join(f"{share:.0%}" for share in shares)

    crowd = population / groups
    most = "" if crowd <= MAX_CROWD else f" ({MAX_CROWD} are simulated)"
    return _finding(
        metric.base_name, watched[-1],
        "an observer collects nine tenths of the reports of a device over "
        f"{', '.join(map(str, DAYS))} days, where about {crowd:,.0f} devices share cohort, "
        f"level and turn{most}: behind a relay, for {in_words(bodies)} of devices from bodies "
        f"alone, and for {in_words(watched)} if the collector also watches arrival times and "
        "people use the app at the same time of day (within half an hour); without a relay, for "
        f"{in_words(addressed)} from the address alone. Relay and collector together see both",
    )  # fmt: skip


def life_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Attack each location metric, and each metric without a bound for the whole sequence.

    `population` is the number of devices that report; each cohort has its share.
    """
    for metric in file.declared:
        crowd = min(LIFE_CROWD, population // metric.params.num_cohorts)
        if crowd < 2 or metric.max_reports == 1:
            continue
        if can_be_watched(metric):
            yield _found_by_life(metric, crowd, rng)
        elif metric.location is not None:
            yield Finding("note", metric.base_name, _bounded(metric, crowd))


def _found_by_life(metric: Metric, crowd: int, rng: np.random.Generator) -> Finding:
    """Return the finding on how often known histories identify a device, with a remedy."""
    result, late = (
        find_by_life(
            metric, world, rng, periods=WATCHED[-1:], crowd=crowd, cohorts=COHORTS, targets=TARGETS
        )[0]
        for world in WORLDS
    )
    unit, what = metric.period, "value" if metric.location is None else "last known cell"
    if dates_are_reported(metric):
        how = f"from the {unit}s with a report alone"
        use = f"max_reports = 1, under a new name, reveals only one {unit}"
        if metric.rules.has_key("no_data"):
            use += f"; with no_data, an app that runs every {unit} reports every {unit}"
    else:
        how = f"from the times of data and of a new {what}"
        use = (
            "mode = 'window' with turn = 'fresh' and hold, under a new name, bounds both"
            if metric.location is not None
            else "one or a few fresh answers have a bound for the sequence: max_reports without "
            "a permanent response (mode = 'once' for numbers), under a new name"
        )
    message = (
        f"in simulation, an observer who links a device's reports of {result.periods} {unit}s "
        f"picks the right device out of {result.crowd:,} of its cohort in {result.by_times:.0%} "
        f"of cases {how}, and in {result.by_life:.0%} if everyone's values are known "
        f"({1 / result.crowd:.2%} by chance)"
    )
    if not dates_are_reported(metric):
        message += (
            f"; if the app runs only when there is data, in {late.by_times:.0%} from arrival "
            "dates alone"
        )
    most = max(result.by_times, result.by_life)
    short = f"linked reports single out a device in {most:.0%} of simulated cases"
    return _finding(metric.base_name, most, f"{message}; {use}", short)


def _bounded(metric: Metric, crowd: int) -> str:
    """Return, as text, the maximum rate of devices that fresh reports identify, in both worlds."""
    periods = (metric.location and metric.location.window) or WATCHED[-1]
    steady, rarely = (bound_of_fresh(metric, world, periods, crowd) for world in WORLDS)
    return (
        f"an observer who has every answer of {periods} {metric.period}s and its date of arrival "
        f"picks the right device out of {crowd:,} of its cohort in at most {steady:.2%} of "
        "cases, whatever else they know. If the app runs only when there is data, about "
        f"{share_that_arrives(metric):.0%} of due answers arrive (accept_days = "
        f"{metric.accept_days}), and their dates raise that to at most {rarely:.2%}: a smaller "
        "accept_days reveals less and loses more answers"
    )


def _finding(name: str, share: float, message: str, short: str = "") -> Finding:
    return Finding("warning" if share > WORRYING else "note", name, message, short)
