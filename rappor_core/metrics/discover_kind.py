"""The kind `discover`: any string, collected so that frequent ones are found without a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rappor_core.codes.prefix_code import packaged_code, read_code
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.errors import MetricsFileError, ParameterError, shown
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.metrics.kinds import Kind

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

NUM_BITS = 1_024
NUM_COHORTS = 160
DEFAULT_CODE = "domains"
_SHAPE = ("num_hashes", "hash")


class Discover(Kind):
    """The kind of metric that finds strings without a list: a cohort says how many bits of a
    string's code are hashed."""

    name = "discover"
    encodings = ("coded_prefix",)
    keys = frozenset({"code", "code_table", "num_levels", "bits_per_level"})
    has_details = True
    takes_no_data = True
    in_words = (
        "a text that no list holds: a device sends a code of its beginning or of all of it, from "
        "which only frequent texts can be read"
    )

    def shape(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """`num_bits` and `num_cohorts` may be declared; one hash, of family mmh3."""
        from rappor_core.metrics.tables import refuse  # only where a file is read

        for key in _SHAPE:
            if key in table:
                refuse(name, key, table[key], "is fixed by kind = 'discover'; leave it out")
        bits, cohorts = table.get("num_bits", NUM_BITS), table.get("num_cohorts", NUM_COHORTS)
        return {"num_bits": bits, "num_hashes": 1, "num_cohorts": cohorts}

    def mechanism(
        self, name: str, table: Mapping[str, Any], num_hashes: Any, *, single_bit: bool
    ) -> TwoRoundMechanism:
        """Make the mechanism; from `epsilon_infinity` alone, a permanent response that is sent
        as it is, once.

        It keeps a 1 with 1/2 and lies with 1 / (e^epsilon + 1), rounded towards privacy (OUE; Wang
        et al. 2017).
        """
        from rappor_core.metrics.tables import positive, read_mechanism  # only for a file

        others = {"epsilon_one", "mechanism", "prob_f", "prob_p", "prob_q"} & table.keys()
        if others or "epsilon_infinity" not in table:
            return read_mechanism(name, table, num_hashes, single_bit=single_bit)
        once = TwoRoundMechanism.one_shot(positive(name, table, "epsilon_infinity"))
        return TwoRoundMechanism(p1=once.p2, q1=once.q2, p2=PROBABILITY_SCALE, q2=0)

    def read_details(self, name: str, table: Mapping[str, Any]) -> PrefixGroups:  # noqa: ARG002
        """Read the code table, by its name or its text, and the lengths of the prefixes."""
        text, code = table.get("code_table"), table.get("code", DEFAULT_CODE)
        if text is not None and not isinstance(text, str):
            raise ParameterError(
                f"code_table = {shown(text)} is not text: rappor metrics train-code"
            )
        table_code = packaged_code(code) if text is None else read_code(text)
        if text is not None and table.get("code", table_code.name) != table_code.name:
            raise ParameterError(f"code = {shown(code)}, but code_table is {table_code.name!r}")
        parts = {key: table[key] for key in ("num_levels", "bits_per_level") if key in table}
        return PrefixGroups(table_code, packaged=text is None, **parts)

    def details_from_dict(self, fields: Mapping[str, Any]) -> PrefixGroups:
        """Read the groups of prefixes from a metric's definition."""
        return PrefixGroups.from_dict(fields)

    def cohort_step(self, metric: Metric) -> int:
        """Number that `num_cohorts` must be a multiple of: the number of groups."""
        return int(metric.details.num_groups)

    def fewer_cohorts(self, metric: Metric) -> str:
        """Advice to declare fewer levels, since each level takes a group of cohorts, and one
        group more counts."""
        return f"fewer levels (num_levels + 1 = {self.cohort_step(metric)} cohorts at least)"

    def check(self, metric: Metric) -> None:
        """Require equal groups of cohorts, and one report only where a second one would repeat
        its bits."""
        if not isinstance(metric.details, PrefixGroups):
            raise MetricsFileError(f"metric {metric.name!r}: details is missing")
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
