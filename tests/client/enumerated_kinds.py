"""Exact audit of the kinds `number`, `pair`, `flow` and `discover`, by enumeration.

As `tests.client.enumeration`: small metrics through the SDK's own `MetricEncoder`, from a value to
a report, with a source that counts in place of the random one. All draws are gone through, so the
chances are fractions without error, and so is epsilon.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from functools import partial
from typing import Any

from rappor_core.codes.prefix_code import packaged_code
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.grid.box import NO_DATA, OTHER, Box
from rappor_core.grid.grid import Grid
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.flow import COHORT_STEP, QUESTIONS, Flow, question_of
from rappor_core.metrics.location import Slot
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.number import Number, NumberMode
from rappor_core.metrics.pair_kind import Pair
from rappor_core.params import RapporParams
from tests.client.enumeration import SETTINGS, Enumerated
from tests.client.exact_laws import (
    Chances,
    device_of_cohort,
    epsilon_of,
    permanent_chances,
    report_chances,
    series_epsilons,
)

PERIODS = 4  # of the lives of numbers
NUMBERS = (0.0, 15.0, 30.0, 50.0)  # on both sides of each cut
COMMON: dict[str, Any] = {
    "description": "exact audit",
    "owner": "audit@example.org",
    "expires": date(2100, 1, 1),
}


def enumerate_kinds() -> Iterator[Enumerated]:
    """Enumerate the epsilons of every kind but strings."""
    yield from _numbers()
    yield _one_answer()
    for f, p, q in SETTINGS:
        yield from _pairs(pair_metric(TwoRoundMechanism.rappor(f, p, q)))
    yield from _flows()
    yield from _coded_prefixes()


def number_metric(mode: NumberMode = "memo", symbols: int = 2) -> Metric:
    """Make a metric of numbers with three cuts, or with as many as the symbols need."""
    number = Number(
        unit="ms", of_period="last", edges=(10.0, 20.0, 40.0), scale="list", whole=False,
        ask="edges", none="zero", mode=mode, spread=1,
    )  # fmt: skip
    memo = TwoRoundMechanism.symbols(2, 1.0, 0.75)
    mechanism = memo if mode == "memo" else TwoRoundMechanism.one_symbol(symbols, 1.0)
    cohorts = 2 * number.stride(symbols)
    return Metric(
        name="audit", kind="number", params=RapporParams(symbols, 1, cohorts, mechanism, "ordered"),
        max_memoized_values=symbols, details=number, period="day",
        max_reports=None if mode == "memo" else 1, **COMMON,
    )  # fmt: skip


def pair_metric(mechanism: TwoRoundMechanism, name: str = "audit") -> Metric:
    """Make a pair metric of two lists of two values, with a bit for each pair."""
    pair = Pair(("engine", "theme"), (("a", "b"), ("light", "dark")))
    return Metric(
        name=name, kind="pair", params=RapporParams(4, 1, 1, mechanism, "one_hot"),
        max_memoized_values=4, details=pair, **COMMON,
    )  # fmt: skip


def discover_metric(mechanism: TwoRoundMechanism, max_reports: int | None) -> Metric:
    """Make a `discover` metric with prefixes of 16 bits and three groups of one cohort each."""
    groups = PrefixGroups(packaged_code("domains"), num_levels=2, bits_per_level=8)
    return Metric(
        name="audit", kind="discover", params=RapporParams(16, 1, 3, mechanism, "coded_prefix"),
        max_memoized_values=2, fallback="other", details=groups, max_reports=max_reports, **COMMON,
    )  # fmt: skip


def flow_metric(symbols: int = 5) -> Metric:
    """Make a metric of flows between two cells of one zone, all of whose questions are asked."""
    flow = Flow(
        grid=Grid("square", Box(0.0, 0.0, 1.0, 2.0), (0, 1), 1, 1), mode="once",
        origin=Slot("night", 22, 6), destination=Slot("work", 9, 17), bands_km=(60.0,),
    )  # fmt: skip
    mechanism = TwoRoundMechanism.one_symbol(symbols, 1.0)
    params = RapporParams(symbols, 1, COHORT_STEP, mechanism, "flow_symbol")
    return Metric(
        name="audit", kind="flow", params=params, max_memoized_values=1, details=flow,
        period="day", max_reports=1, fallback=OTHER, no_data=NO_DATA, **COMMON,
    )  # fmt: skip


def _flows() -> Iterator[Enumerated]:
    """Every pair of sides against every other, under each question."""
    metric = flow_metric()
    sides = metric.details.num_sides
    pairs = [metric.details.pair_text(*both) for both in itertools.product(range(sides), repeat=2)]
    for question in QUESTIONS:
        cohort = next(c for c in range(COHORT_STEP) if question_of(c) == question)
        device = partial(device_of_cohort, metric, cohort)
        values = {device(bytes).value_bits(value) for value in pairs}
        tables = [report_chances(device, bits, 0) for bits in values]
        found = max(epsilon_of(a, b) for a, b in itertools.permutations(tables, 2))
        text = f"a flow, once, g = 5, question {question!r}"
        yield Enumerated(text, 1, found, metric.params.epsilon_n(1))


def _numbers() -> Iterator[Enumerated]:
    """All lives of some periods and all series of answers.

    A number that never crosses its device's cut costs one answer; two lives that cross it in the
    same periods cost two.
    """
    metric = number_metric()
    params = metric.params
    device = partial(device_of_cohort, metric, 0)
    symbols = sorted({device(bytes).value_bits(value) for value in NUMBERS})
    first = {bits: permanent_chances(device, bits, 0) for bits in symbols}
    second = {bits: report_chances(device, bits, 0) for bits in symbols}
    for periods in range(1, PERIODS + 1):
        lives = {
            life: life_chances(life, first, second)
            for life in itertools.product(symbols, repeat=periods)
        }
        for life in itertools.product(symbols, repeat=periods - 1):
            one, other = (symbols[0], *life), (symbols[1], *(sum(symbols) - bits for bits in life))
            crossed = sum(bits != symbols[0] for bits in one)
            times = (periods - crossed, crossed) if crossed else (periods,)
            yield Enumerated(
                f"a number, g = 2, {crossed} of {periods} periods on the other side", periods,
                epsilon_of(lives[one], lives[other]), sum(params.epsilon_n(n) for n in times),
            )  # fmt: skip


def life_chances(
    life: tuple[int, ...], first: dict[int, Chances], second: dict[int, Chances]
) -> Chances:
    """Probabilities of all series of answers of a life; the key packs two bits for each period."""
    found: Counter[int] = Counter()
    for answers in itertools.product(first[1], first[2]):
        given = dict(zip((1, 2), answers, strict=True))
        weight = first[1][answers[0]] * first[2][answers[1]]
        shown = [second[given[bits]] for bits in life]
        for series in itertools.product(*shown):
            key = sum(s << (2 * i) for i, s in enumerate(series))
            found[key] += weight * math.prod(  # type: ignore[assignment]
                (table[s] for table, s in zip(shown, series, strict=True)), start=Fraction(1)
            )
    return dict(found)  # type: ignore[arg-type]


def _one_answer() -> Enumerated:
    """Mode `once`: every answer for every number."""
    metric = number_metric("once", 4)
    device = partial(device_of_cohort, metric, 0)
    values = {device(bytes).value_bits(value) for value in NUMBERS}
    tables = [report_chances(device, bits, 0) for bits in values]
    found = max(epsilon_of(a, b) for a, b in itertools.permutations(tables, 2))
    return Enumerated("a number, once, g = 4", 1, found, metric.params.epsilon_n(1))


def _pairs(metric: Metric) -> Iterator[Enumerated]:
    """Every pair of values against every other, all series of reports."""
    device = partial(device_of_cohort, metric, 0)
    bits = [device(bytes).value_bits(value) for value in (("a", "light"), ("b", "dark"))]
    places = sum(bits)
    first = [permanent_chances(device, one, places) for one in bits]
    text = f"a pair, {_settings(metric)}"
    for reports, found in series_epsilons(device, first, places, (1, 2, 3)):
        yield Enumerated(text, reports, found, metric.params.epsilon_n(reports))


def _coded_prefixes() -> Iterator[Enumerated]:
    """Two strings in each group of cohorts, at the two bits in which they differ."""
    half = PROBABILITY_SCALE // 2
    one_shot = TwoRoundMechanism(p1=half, q1=half // 4, p2=PROBABILITY_SCALE, q2=0)
    twice = TwoRoundMechanism(p1=half, q1=half // 4, p2=3 * half // 2, q2=half // 2)
    for mechanism, most in ((one_shot, 1), (twice, None)):
        metric = discover_metric(mechanism, most)
        for cohort in range(3):
            device = partial(device_of_cohort, metric, cohort)
            bits = [device(bytes).value_bits(value) for value in ("one.example", "two.example")]
            places = bits[0] | bits[1]
            first = [permanent_chances(device, one, places) for one in bits]
            text = f"a coded prefix, group {cohort}, {_settings(metric)}"
            numbers = (1,) if most == 1 else (1, 2)
            for reports, found in series_epsilons(device, first, places, numbers):
                yield Enumerated(text, reports, found, metric.params.epsilon_n(reports))


def _settings(metric: Metric) -> str:
    m = metric.params.mechanism
    return "p1, q1, p2, q2 = " + ", ".join(f"{x}" for x in (m.p1, m.q1, m.p2, m.q2))
