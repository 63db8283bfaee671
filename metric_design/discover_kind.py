"""The design of `discover` metrics: their review, plans and types."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from metric_design.cohorts import numbers_of_cohorts
from metric_design.kind_design import KindDesign, Level, Question
from rappor_core.metrics.discover_kind import DEFAULT_NUM_COHORTS
from rappor_core.metrics.metric import Metric

DEFAULT_LEVELS = 4
_ASCII = 128
_OF_TWO_BYTES = "\u00e9\u0645".encode()  # A Latin and an Arabic letter


class DiscoverDesign(KindDesign):
    """The design of `discover` metrics."""

    asks = "share"  # One report per lifetime, sent as the permanent response
    usual = {"max_reports": 1, "max_memoized_values": 2, "fallback": "other"}  # noqa: RUF012

    def designs(self, question: Question) -> Iterator[Mapping[str, Any]]:
        """Yield designs with each useful number of cohorts, largest first."""
        step = question.whole_of("num_levels", DEFAULT_LEVELS) + 1
        for cohorts in numbers_of_cohorts(question.people, step, DEFAULT_NUM_COHORTS):
            yield {"epsilon_infinity": question.life, "num_cohorts": cohorts}

    def precision(self, metric: Metric, devices: float) -> float:
        """Return the share above which the decoder is predicted to find nearly all strings."""
        discovery = import_module("decoder.discovery.discovery")  # Needs numpy
        noise = import_module("decoder.model.noise").BitNoise.of(metric.params.mechanism)
        repeats = float(metric.max_reports_per_period)
        reports, options = devices * repeats, discovery.DiscoverOptions()
        named = discovery.named_shares(noise, metric.details, options, reports, repeats)
        return float(named.most)

    def finding(self, metric: Metric, precision: float, question: Question) -> str:  # noqa: ARG002
        """Return, as text, the smallest share with which a string is discovered."""
        return _success(precision)

    def supposed(self, metric: Metric, question: Question) -> str:  # noqa: ARG002
        """Return, as text, the assumption about the hashed code of a string."""
        code = metric.details.code.name
        return (
            f"the code '{code}' encodes the string in at most {metric.details.code_bits} bits, "
            "and no other string has the same beginning"
        )

    def findings(
        self,
        metric: Metric,
        population: int | None,
    ) -> Iterator[tuple[Level, str]]:
        """Yield notes on how frequent a string must be and on text outside ASCII."""
        if population:
            with suppress(ModuleNotFoundError):  # The check reports the missing module
                share = self.precision(metric, population)
                yield "note", f"with {population:,} devices you {_success(share)}"
        groups = metric.details
        code, most = groups.code, groups.code_bits
        if max(code.symbols) >= _ASCII:
            return
        each = (code.size(_OF_TWO_BYTES) - code.size(b"")) / len(_OF_TWO_BYTES)
        yield (
            "note",
            f"code = '{code.name}' is long for characters outside ASCII: each of their 2 to 4 "
            f"bytes takes about {each:.0f} of the {most} hashed bits, so only the beginning of "
            f"a string with {max(1, int(most / (2 * each))) + 1} or more of them is found; if "
            "devices have such strings, train a code_table on a public list of them: rappor "
            "metrics train-code LIST",
        )


def _success(share: float) -> str:
    return (
        f"find a string that {100 * share:.3g} % of the devices have, without a list, 19 times "
        "in 20"
    )


DISCOVER = DiscoverDesign()
