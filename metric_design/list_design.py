"""The design of `string`, `category` and `boolean` metrics, which search for listed values."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from decoder.errors import PlanError
from metric_design.central_privacy import MIN_REPORTS_A_COHORT
from metric_design.cohorts import powers_of_cohorts, reports_of_cohorts
from metric_design.kind_design import KindDesign, Question, rounded_down
from rappor_core.encodings import Encoding, encoding_named
from rappor_core.errors import ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.keys import DEFAULT_MIN_REPORTS, DEFAULT_MIN_REPORTS_PER_COHORT
from rappor_core.metrics.kinds import kind_named
from rappor_core.metrics.metric import Metric

POWER = 0.8  # Probability of detecting a share that counts as detectable
ALPHA = 0.05  # Level of the decoding
DEFAULT_VALUES = 3  # Per device lifetime
MAX_BYTES = 16  # Per report
MAX_COHORTS = 64
MAX_HASHES = 4
FILTER_BITS = 8, 16, 32, 64, 128
EPSILON_RATIO = 0.5  # Ratio of epsilon_one to epsilon_infinity
MAX_PAIR = 19.0  # The maximum nats for a pair of bits, as multiples of 2**-16 can express


class ListDesign(KindDesign):
    """The design of metrics whose values are searched for in a list of candidates."""

    asks = "share"
    options = "candidates", "periods", "values", "expected"
    further = "candidates", "periods"
    usual = {"period": "day"}  # noqa: RUF012 (never changed)

    def completed(self, question: Question) -> Question:
        """Check that a boolean has two values, and that the list fits in a report."""
        encoding, most = encoding_of(question), 8 * MAX_BYTES
        if encoding.single_bit:
            if question.candidates not in (None, 2):
                raise PlanError(
                    f"candidates = {question.candidates:g}: a boolean has 2 values; leave it out"
                )
            if question.values not in (None, 2):
                raise PlanError(
                    f"values = {question.values}: a boolean has 2 values, and both count; leave "
                    "it out"
                )
            question = replace(question, candidates=2, values=2)
        elif encoding.hashed:
            if question.mode != "once" and question.values == 1:
                raise PlanError(
                    f"values = {question.values}: a string also needs a place for the fallback; "
                    "use 2 or more"
                )
        elif question.candidates is not None and not 2 <= question.listed <= most:
            raise PlanError(
                f"candidates = {question.listed:,}: a category has one bit for each, 2 to {most}; "
                "use kind = 'string'"
            )
        population = import_module("metric_design.population")  # Needs numpy
        return replace(question, expected=question.expected or population.zipf_population(1.0))

    def designs(self, question: Question) -> Iterator[Mapping[str, Any]]:
        """Yield every shape that fits a report and the list, smallest first, for each mechanism."""
        encoding = encoding_of(question)
        for bits, hashes in _shapes(question, encoding):
            powers = powers_of_cohorts(question.people, most=MAX_COHORTS)
            cohorts = [number for number in powers if number * hashes > 1]  # Identified
            for number in cohorts if encoding.hashed else (1,):
                for noise in mechanisms(question, encoding, hashes):
                    table = {"num_bits": bits, "num_hashes": hashes, "num_cohorts": number}
                    yield {
                        **(table if encoding.hashed else {}),
                        **noise,
                        **_values(question, encoding, bits, 1 if "max_reports" in noise else None),
                        "min_reports": _min_reports(number),
                    }

    def mode(self, table: Mapping[str, Any]) -> str | None:
        """Return `once` (one report per lifetime) or `memo` (memoized reports in each period)."""
        return "once" if table.get("max_reports") == 1 else "memo"

    def reached(self, metric: Metric, question: Question) -> float:
        """Return the smallest share detected with probability `POWER`, infinite if none is."""
        share: float = import_module("metric_design.list_forecast").detected_share(metric, question)
        return share

    def rank(self, metric: Metric, question: Question) -> float:
        """Return the log of a share's error, plus a penalty if p-values are never small enough."""
        rank: float = import_module("metric_design.list_forecast").rank(metric, question)
        return rank

    def max_epsilon(self, question: Question) -> float:
        """Return the largest epsilon for all of a device's values, as limited by probabilities."""
        values = 1 if question.mode == "once" else held_values(question)
        return min(1e5, 2 * MAX_PAIR * values)

    def finding(self, metric: Metric, precision: float, question: Question) -> str:  # noqa: ARG002
        """Describe how many expected values are detected, and how often."""
        text: str = import_module("metric_design.list_forecast").finding(question, precision)
        return text

    def supposed(self, metric: Metric, question: Question) -> str:  # noqa: ARG002
        """Describe the expected shares and the decoder's rule."""
        assert question.expected is not None  # noqa: S101 (set by `completed`)
        return (
            f"{question.expected.words} over {question.listed:,} candidates (--shares), decoded "
            f"by --correction fdr (at most {100 * ALPHA:g} % of the detected values are false)"
        )

    def limit(self, metric: Metric, question: Question) -> str:
        """Explain why no share, or no smaller share, is detected."""
        why: str = import_module("metric_design.list_forecast").limit(metric, question)
        return why


LISTED = ListDesign()


def encoding_of(question: Question) -> Encoding:
    """Return the usual encoding of a question's kind."""
    return encoding_named(kind_named(question.given["kind"]).encodings[0])


def held_values(question: Question) -> int:
    """Return the number of values that a device may answer with in its lifetime."""
    return DEFAULT_VALUES if question.values is None else question.values


def merged_periods(devices: float, cohorts: int) -> int:
    """Return how many periods are served as one, if each device reports once per period."""
    needed = reports_of_cohorts(cohorts, DEFAULT_MIN_REPORTS_PER_COHORT, _min_reports(cohorts))
    return math.ceil(needed / devices)


def _min_reports(cohorts: int) -> int:
    return max(DEFAULT_MIN_REPORTS, MIN_REPORTS_A_COHORT * cohorts)


def _shapes(question: Question, encoding: Encoding) -> Iterator[tuple[int, int]]:
    """Yield the bits and hashes that fit a report and the list, smallest first."""
    if encoding.single_bit:
        yield 1, 1
    elif not encoding.hashed:
        if question.listed <= 8 * MAX_BYTES:
            yield question.listed, 1
    else:
        for bits in FILTER_BITS:
            for hashes in range(1, min(MAX_HASHES, bits // 4) + 1):
                yield bits, hashes


def _values(
    question: Question, encoding: Encoding, bits: int, cap_given: int | None
) -> Mapping[str, Any]:
    """Return the keys for cap, fallback and categories, which are named `value-1` and so on."""
    if encoding.single_bit:
        return {}
    cap = cap_given or held_values(question)
    if encoding.hashed:
        return {"max_memoized_values": cap, "fallback": "other"}
    names = [*(f"value-{i}" for i in range(1, bits)), "other"]
    listed = {"categories": names, "max_memoized_values": min(cap, bits)}
    return listed if cap >= bits else {**listed, "fallback": "other"}


def mechanisms(question: Question, encoding: Encoding, hashes: int) -> Sequence[Mapping[str, Any]]:
    """Return the mechanisms of the requested mode that stay within the epsilon."""
    noises: list[Mapping[str, Any]] = []
    if question.mode != "memo":
        noises += _of_one_report(question.life, hashes, single_bit=encoding.single_bit)
    if question.mode != "once":
        for name in ("rappor",) if encoding.single_bit else ("rappor", "l-osue"):
            noises += _memoized(
                question.life / held_values(question), hashes, name, encoding.single_bit
            )
    return noises


def _of_one_report(life: float, hashes: int, *, single_bit: bool) -> Iterator[Mapping[str, Any]]:
    """Yield symmetric and optimized unary encoding (Wang et al. 2017), rounded toward privacy."""
    pair = min(life * (2 if single_bit else 1 / hashes), MAX_PAIR)
    symmetric = math.ceil(PROBABILITY_SCALE / (1 + math.exp(pair / 2)))
    chances = [(symmetric, PROBABILITY_SCALE - symmetric)]
    if not single_bit:
        lie = math.ceil(PROBABILITY_SCALE / (1 + math.exp(pair)))
        chances.append((lie, PROBABILITY_SCALE // 2))
    for p, q in chances:
        if p < q:
            prob_p, prob_q = (round(chance / PROBABILITY_SCALE, 6) for chance in (p, q))
            yield {"prob_f": 0.0, "prob_p": prob_p, "prob_q": prob_q, "max_reports": 1}


def _memoized(
    epsilon: float, hashes: int, name: str, single_bit: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield RAPPOR's or L-OSUE's rounds, or nothing if they would destroy all information."""
    share = 2.0 if single_bit else 1 / hashes
    infinity = rounded_down(min(MAX_PAIR / share, epsilon))
    first = rounded_down(EPSILON_RATIO * infinity)
    make = TwoRoundMechanism.optimized if name == "l-osue" else TwoRoundMechanism.symmetric
    try:
        make(infinity * share, first * share)
    except ParameterError:
        return
    mechanism = {} if name == "rappor" else {"mechanism": name}
    yield {**mechanism, "epsilon_infinity": infinity, "epsilon_one": first}
