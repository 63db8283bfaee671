"""`MetricTable`: a `[metrics.NAME]` table of `metrics.toml`, read with the keys of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any, NoReturn

from rappor_core.errors import InformationLostError, MetricsFileError, meant, shown
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.keys import ALWAYS, COMMON_KEYS, MAX_REPORTS_PER_PERIOD
from rappor_core.params import is_positive

if TYPE_CHECKING:
    from rappor_core.metrics.kinds import Kind

_MECHANISMS = ("rappor", "l-sue", "l-osue")
_AS_DECLARED = {key.name for key in COMMON_KEYS} | {
    "max_memoized_values", "fallback", "no_data", MAX_REPORTS_PER_PERIOD.name,
}  # fmt: skip


class MetricTable:
    """A metric's table, where `table[key]` is the declared value or else the key's default.

    `name` is the metric's name; `table` contains the keys and values as in the file. Raises
    MetricsFileError if a key is missing or if the kind does not have the key.
    """

    def __init__(self, name: str, table: Mapping[str, Any], kind: Kind) -> None:
        self.name, self.given = name, table
        self._keys = {key.name: key for key in (*COMMON_KEYS, *kind.keys)}
        for key in kind.fixed_keys:
            if key in table:
                why = f"is fixed by kind = {kind.name!r}; leave it out"
                raise MetricsFileError(f"metric {name!r}: {key} = {shown(table[key])} {why}")
        refuse_unknown(f"metric {name!r}", table, self._keys.keys())
        for entry in self._keys.values():
            if entry.needed_when == ALWAYS and entry.default is None:
                self[entry.name]

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def __getitem__(self, key: str) -> Any:
        value = self.get(key)
        if value is None:
            raise MetricsFileError(f"metric {self.name!r}: {key} is missing")
        return value

    def get(self, key: str) -> Any:
        """Return the value of a key, or its default, or None."""
        return self.given.get(key, self._keys[key].default)

    def declared(self) -> dict[str, Any]:
        """Return the values that become fields of a `Metric` unchanged."""
        return {key: value for key, value in self.given.items() if key in _AS_DECLARED}

    def positive(self, key: str) -> float:
        """Read a positive number of nats. Raises MetricsFileError otherwise."""
        value = self[key]
        if not is_positive(value):
            self.refuse(key, "is not a positive number of nats")
        return float(value)

    def filled_list(self, key: str) -> list[Any]:
        """Read a non-empty list. Raises MetricsFileError otherwise."""
        value = self[key]
        if not isinstance(value, list) or not value:
            self.refuse(key, "is not a list with at least one item")
        return value

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise MetricsFileError, which names the metric, the key and its value."""
        raise MetricsFileError(f"metric {self.name!r}: {key} = {shown(self.get(key))} {why}")

    def refuse_any(self, keys: Iterable[str], why: str) -> None:
        """Raise MetricsFileError if the table contains any of the given keys."""
        for key in keys:
            if key in self.given:
                self.refuse(key, why)

    def refuse_unknown_part(self, key: str, names: Set[str]) -> None:
        """Raise MetricsFileError if the inline table of a key contains an unknown key."""
        refuse_unknown(f"metric {self.name!r}: {key}", self[key], names)

    def mechanism(self, num_hashes: Any, *, single_bit: bool) -> TwoRoundMechanism:
        """Read the mechanism from three probabilities, or derive it from two epsilons.

        Args:
            num_hashes: The number of hashes that share each epsilon.
            single_bit: Whether two values differ in one bit instead of two.

        Raises:
            MetricsFileError: Probabilities and epsilons are both given, or both missing.
        """
        epsilons = [key for key in ("epsilon_infinity", "epsilon_one") if key in self]
        probabilities = [key for key in ("prob_f", "prob_p", "prob_q") if key in self]
        choice = self["mechanism"]
        if choice not in _MECHANISMS:
            self.refuse("mechanism", f"is not one of {', '.join(_MECHANISMS)}")
        if epsilons and probabilities:
            both = sorted(probabilities + epsilons)
            raise MetricsFileError(
                f"metric {self.name!r}: give probabilities or epsilons, not {both}"
            )
        if not epsilons:
            if choice != "rappor":
                self.refuse("mechanism", "needs epsilon_infinity and epsilon_one")
            return TwoRoundMechanism.rappor(*(self[key] for key in ("prob_f", "prob_p", "prob_q")))
        pair = self.positive("epsilon_infinity"), self.positive("epsilon_one")
        self.check_hashes(num_hashes)
        if choice == "l-osue":
            if single_bit:
                self.refuse("mechanism", "has no use for a boolean; use 'l-sue'")
            return TwoRoundMechanism.optimized(*(value / num_hashes for value in pair))
        share = 2.0 if single_bit else 1 / num_hashes
        return TwoRoundMechanism.symmetric(*(value * share for value in pair))

    def check_hashes(self, num_hashes: Any) -> None:
        """Check that the number of hashes is a whole number of 1 or more."""
        if type(num_hashes) is not int or num_hashes < 1:
            self.refuse("num_hashes", "is not a whole number of 1 or more")

    def problem(self, error: Exception) -> MetricsFileError:
        """Convert an error to a MetricsFileError, naming the metric (and an epsilon, if tiny)."""
        if isinstance(error, InformationLostError):
            self.refuse_any(("epsilon_one", "epsilon"), "keeps nothing; use a larger one")
        return MetricsFileError(f"metric {self.name!r}: {error}")


def refuse_unknown(where: str, table: Mapping[str, Any], names: Set[str]) -> None:
    """Raise MetricsFileError, naming key and value, if a table contains an unknown key."""
    for key in sorted(table.keys() - names):
        value, name = table[key], shown(key)[1:-1]
        what = f"key {name} = {shown(value)}"
        if isinstance(value, dict) and value:  # such as [metric.x] instead of [metrics.x]
            what = f"table [{name}.{shown(next(iter(value)))[1:-1]}]"
        hint = meant(key, names) or f"; known are {', '.join(sorted(names))}"
        raise MetricsFileError(f"{where}: unknown {what}{hint}")
