"""Reading the tables of `metrics.toml`: the keys that kinds of metric share."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, NoReturn

from rappor_core.errors import InformationLostError, MetricsFileError, meant, shown
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import is_positive

SHAPE_KEYS = {"num_bits", "num_hashes", "num_cohorts", "hash"}
NOISE_KEYS = {"mechanism", "prob_f", "prob_p", "prob_q", "epsilon_infinity", "epsilon_one"}
_REQUIRED_KEYS = {"kind", "description", "owner", "expires"}
_OPTIONAL_KEYS = {"period", "min_reports", "min_reports_per_cohort", "accept_days", "keep_raw_days"}
_OPTIONAL_KEYS |= {"platforms", "lives", "max_reports"}
_MECHANISMS = ("rappor", "l-sue", "l-osue")


def read_mechanism(
    name: str, table: Mapping[str, Any], num_hashes: Any, *, single_bit: bool
) -> TwoRoundMechanism:
    """Read the mechanism from three probabilities, or solve it from two epsilons; never both."""
    epsilons = {key: table[key] for key in ("epsilon_infinity", "epsilon_one") if key in table}
    probabilities = {key for key in ("prob_f", "prob_p", "prob_q") if key in table}
    choice = table.get("mechanism", "rappor")
    if not isinstance(choice, str) or choice not in _MECHANISMS:
        refuse(name, "mechanism", choice, f"is not one of {', '.join(_MECHANISMS)}")
    if epsilons and probabilities:
        both = sorted(probabilities | epsilons.keys())
        raise MetricsFileError(f"metric {name!r}: give probabilities or epsilons, not {both}")
    if not epsilons:
        if choice != "rappor":
            refuse(name, "mechanism", choice, "needs epsilon_infinity and epsilon_one")
        three = [needed(name, table, key) for key in ("prob_f", "prob_p", "prob_q")]
        return TwoRoundMechanism.rappor(*three)
    pair = [positive(name, table, key) for key in ("epsilon_infinity", "epsilon_one")]
    check_hashes(name, num_hashes)
    if choice == "l-osue":
        if single_bit:
            refuse(name, "mechanism", choice, "has no use for a boolean; use 'l-sue'")
        return TwoRoundMechanism.optimised(*(value / num_hashes for value in pair))
    share = 2.0 if single_bit else 1 / num_hashes
    return TwoRoundMechanism.symmetric(*(value * share for value in pair))


def check_hashes(name: str, num_hashes: Any) -> None:
    """Refuse a number of hashes among which no epsilon can be divided."""
    if type(num_hashes) is not int or num_hashes < 1:
        refuse(name, "num_hashes", num_hashes, "is not a whole number of 1 or more")


def read_common(name: str, table: Mapping[str, Any], own: Set[str], *extra: str) -> dict[str, Any]:
    """Read the keys of a table that go into `Metric` as they are; refuse unknown ones.

    Args:
        name: of the metric.
        table: its table.
        own: the keys that its kind reads itself.
        *extra: further keys that go into `Metric`.

    Raises:
        MetricsFileError: for an unknown key, or a required one that is missing.
    """
    optional = _OPTIONAL_KEYS | set(extra)
    refuse_unknown(f"metric {name!r}", table, own | optional | _REQUIRED_KEYS)
    common = {key: needed(name, table, key) for key in sorted(_REQUIRED_KEYS)}
    return common | {key: table[key] for key in optional & table.keys()}


def positive(name: str, table: Mapping[str, Any], key: str) -> float:
    """Read a key that must be a positive number of nats."""
    value = needed(name, table, key)
    if not is_positive(value):
        refuse(name, key, value, "is not a positive number of nats")
    return float(value)


def needed(name: str, table: Mapping[str, Any], key: str) -> Any:
    """Read a required key of a table. Raises MetricsFileError where it is missing."""
    if key not in table:
        raise MetricsFileError(f"metric {name!r}: {key} is missing")
    return table[key]


def refuse_unknown(where: str, table: Mapping[str, Any], known: Set[str]) -> None:
    """Raise MetricsFileError for the first key that is not known, with its value."""
    for key in sorted(table.keys() - known):
        value, name = table[key], shown(key)[1:-1]
        what = f"key {name} = {shown(value)}"
        if isinstance(value, dict) and value:  # [metric.x] for [metrics.x]
            what = f"table [{name}.{shown(next(iter(value)))[1:-1]}]"
        raise MetricsFileError(
            f"{where}: unknown {what}{meant(key, known)}; known are {', '.join(sorted(known))}"
        )


def refused(name: str, table: Mapping[str, Any], error: Exception) -> MetricsFileError:
    """Name the metric, and the epsilon that keeps nothing where the table declares one."""
    if isinstance(error, InformationLostError):
        for key in ("epsilon_one", "epsilon"):
            if key in table:
                refuse(name, key, table[key], "keeps nothing; use a larger one")
    return MetricsFileError(f"metric {name!r}: {error}")


def refuse(name: str, key: str, value: Any, why: str) -> NoReturn:
    """Raise MetricsFileError that names the metric, the key and the value."""
    raise MetricsFileError(f"metric {name!r}: {key} = {shown(value)} {why}")


def listed_shape(name: str, table: Mapping[str, Any], num_bits: int) -> dict[str, Any]:
    """The shape where the kind fixes the bits: only num_cohorts may be declared.

    Raises MetricsFileError for a key that is fixed, and for no bits at all.
    """
    for key in ("num_bits", "num_hashes", "hash"):
        if key in table:
            refuse(name, key, table[key], f"is fixed by kind = {table['kind']!r}; leave it out")
    if num_bits == 0:
        raise MetricsFileError(f"metric {name!r}: categories is missing")
    return {"num_bits": num_bits, "num_hashes": 1, "num_cohorts": table.get("num_cohorts", 1)}
