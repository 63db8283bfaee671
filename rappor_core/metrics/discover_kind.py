"""The metric kind `discover`, which finds the frequent strings without a list of candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rappor_core.codes.prefix_code import packaged_code, read_code
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.errors import MetricsFileError, ParameterError, shown
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.keys import (
    NO_DATA_KEY,
    NOISE_KEYS,
    TEXT,
    VALUE_KEYS,
    WHOLE,
    Key,
)
from rappor_core.metrics.kinds import Kind

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.metrics.tables import MetricTable

DEFAULT_NUM_COHORTS = 160


class Discover(Kind):
    """The metric kind that finds frequent strings without a list of candidates.

    The cohort determines how many bits of a string's code are hashed.
    """

    name = "discover"
    encodings = ("coded_prefix",)
    keys = (
        Key("code", TEXT, "domains", "A built-in code table: internet host names."),
        Key("code_table", TEXT, None, "Your table, from `rappor metrics train-code`."),
        Key("num_levels", WHOLE, 4, "Cohort groups for parts of the code; one more counts."),
        Key("bits_per_level", WHOLE, 16, "Code bits per level, 64 at most in total."),
        Key("num_bits", WHOLE, 1_024, "Hash buckets for a prefix."),
        Key("num_cohorts", WHOLE, DEFAULT_NUM_COHORTS, "A multiple of `num_levels + 1`."),
        *NOISE_KEYS,
        *VALUE_KEYS,
        NO_DATA_KEY,
    )
    fixed_keys = ("num_hashes", "hash")
    details = PrefixGroups
    free_text = True
    client_part = "discover"
    in_words = (
        "a text that no list holds: a device sends a code of its beginning or of all of it, from "
        "which only frequent texts can be read"
    )

    def shape(self, table: MetricTable) -> dict[str, Any]:
        """Return the declared numbers of bits and cohorts, and one hash."""
        return {
            "num_bits": table["num_bits"],
            "num_hashes": 1,
            "num_cohorts": table["num_cohorts"],
        }

    def mechanism(
        self, table: MetricTable, num_hashes: Any, *, single_bit: bool
    ) -> TwoRoundMechanism:
        """Return the mechanism; if only `epsilon_infinity` is declared, it has no second round.

        The permanent round then keeps a 1 with probability 1/2 and turns a 0 into a 1 with
        probability 1 / (e^epsilon + 1), rounded toward privacy (OUE; Wang et al. 2017).
        """
        others = {"epsilon_one", "mechanism", "prob_f", "prob_p", "prob_q"} & table.given.keys()
        if others or "epsilon_infinity" not in table:
            return super().mechanism(table, num_hashes, single_bit=single_bit)
        once = TwoRoundMechanism.one_shot(table.positive("epsilon_infinity"))
        return TwoRoundMechanism(p1=once.p2, q1=once.q2, p2=PROBABILITY_SCALE, q2=0)

    def read_details(self, table: MetricTable) -> PrefixGroups:
        """Read the code table, given as its name or its text, and the lengths of the prefixes."""
        text, code = table.get("code_table"), table["code"]
        if text is not None and not isinstance(text, str):
            raise ParameterError(
                f"code_table = {shown(text)} is not text: rappor metrics train-code"
            )
        table_code = packaged_code(code) if text is None else read_code(text)
        if text is not None and "code" in table and code != table_code.name:
            raise ParameterError(f"code = {shown(code)}, but code_table is {table_code.name!r}")
        levels, bits = table["num_levels"], table["bits_per_level"]
        return PrefixGroups(table_code, levels, bits, packaged=text is None)

    def part_options(self, metric: Metric) -> tuple[str, ...]:
        """Return `domains`, the packaged code table of domain names, if the metric uses it."""
        return ("domains",) if metric.details.packaged else ()

    def cohort_step(self, metric: Metric) -> int:
        """Return the number that must divide `num_cohorts`: the number of groups."""
        return int(metric.details.num_groups)

    def fewer_cohorts(self, metric: Metric) -> str:
        """Return the advice to declare fewer levels, because each needs a group of cohorts."""
        return f"fewer levels (num_levels + 1 = {self.cohort_step(metric)} cohorts at least)"

    def check(self, metric: Metric) -> None:
        """Require equal cohort groups, and `max_reports = 1` if there is no second round."""
        groups, cohorts = metric.details.num_groups, metric.params.num_cohorts
        if cohorts % groups:
            raise MetricsFileError(
                f"metric {metric.name!r}: num_cohorts = {cohorts} is not a multiple of "
                f"num_levels + 1 = {groups}"
            )
        mechanism = metric.params.mechanism
        if (mechanism.p2, mechanism.q2) == (PROBABILITY_SCALE, 0) and metric.max_reports != 1:
            raise MetricsFileError(
                f"metric {metric.name!r}: max_reports = {metric.max_reports} is not 1: without an "
                "instantaneous response a second report would repeat the first bit by bit and link "
                "the two; declare max_reports = 1, or epsilon_one"
            )


DISCOVER = Discover()
