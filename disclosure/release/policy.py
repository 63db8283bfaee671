"""`release.toml`: the publisher, the data, the audience, and the limits for small numbers."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, StringConstraints, with_config

from disclosure.errors import PolicyError
from disclosure.files import STRICT, naming, parse_toml, read_text, to_plain
from disclosure.release.tables import MAX_REPORTS, round_down
from disclosure.typing import Booleans, Floats, Strata
from rappor_core.errors import shown
from rappor_core.text import visible

Reason = Literal["few_reports", "low_interval"]
OnChange = Literal["keep", "revise", "refuse"]
Tree = Literal["", "cells", "domain", "prefix"]
Within: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]

# One symbol for all tables and one for all rows: a third symbol would reveal which number is small.
REASONS: dict[Reason, str] = {
    "few_reports": "the table has fewer reports than the policy requires, or would reveal another "
    "number that is not shown",
    "low_interval": "not detected, or the lower end of its interval is below what the "
    "policy shows, or another number that is not shown could be narrowed down by it",
}
DEFAULT_SYMBOLS: dict[Reason, str] = {"few_reports": "c", "low_interval": "u"}
_MAX_SYMBOL = 8
_MAX_LEVELS = 64  # of a tree
_MAX_DAYS = 36_500
_MAX_DECIMALS = 12  # of the step of shares
_UNSAFE_STARTS = "=+-@'"


def _check_symbol(symbol: str) -> str:
    is_shown = 0 < len(symbol) <= _MAX_SYMBOL and visible(symbol) == symbol == symbol.strip()
    if not is_shown or symbol[0] in _UNSAFE_STARTS or _is_number(symbol):
        raise ValueError(
            f"1 to {_MAX_SYMBOL} visible characters, not a number, not starting with = + - @ or '"
        )
    return symbol


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Reports = Annotated[int, Field(ge=1, le=MAX_REPORTS)]
_Symbol = Annotated[str, AfterValidator(_check_symbol)]


@with_config(STRICT)
@dataclass(frozen=True)
class RollUp:
    """The rule for pooling a metric's rare values: the tree, and the error level."""

    # `cells` (parents by name), `domain` (hosts), `prefix` (strings), "": given hierarchy
    tree: Tree = ""
    levels: Annotated[int, Field(ge=1, le=_MAX_LEVELS)] = 1  # Number of parents of cells
    # Lengths of prefixes, decreasing
    lengths: Annotated[tuple[int, ...], Field(max_length=_MAX_LEVELS)] = (3, 2, 1)
    # Probability that a pool of absent values is shown
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    suffixes: tuple[str, ...] = ()  # Public suffixes of two labels or more, for `domain`
    # Maximum correlation of two estimates; None for the source's
    max_correlation: Annotated[float, Field(ge=0, le=1)] | None = None


@with_config(STRICT)
@dataclass(frozen=True)
class ReleasePolicy:
    """The rules of a release: what may be published, and how it is rounded.

    A window is sealed when its last day is `sealed_after_days` days ago (the largest accept_days of
    the metric's versions; 0 if an administrator closes days). `within["district"]["region"]` maps
    each district to its region, as readers know it."""

    owner: _Text  # For readers, like `audience`
    audience: _Text
    min_reports: _Reports  # The minimum for a table, and for groups that tables reveal together
    # The smallest lower end of a shown interval after rounding, above 0
    min_low: Annotated[float, Field(gt=0, lt=1)]
    rounding: Annotated[
        Decimal, Field(ge=Decimal("1e-9"), le=Decimal("0.5"), decimal_places=_MAX_DECIMALS)
    ]
    reports_rounding: _Reports = 1  # Report counts are rounded down to a multiple of this
    sealed_after_days: Annotated[int, Field(ge=0, le=_MAX_DAYS)] = 7
    first_day: date | None = None  # The first day that may be published; None for no limit
    last_day: date | None = None
    strata: tuple[str, ...] = ()  # Names of the strata that may be published
    total: bool = False  # Whether each table shows the sum of its cells
    within: Within = field(default_factory=dict)
    on_change: OnChange = "keep"  # What to do if an earlier release shows a different number
    # The symbols for suppressed numbers, by reason
    symbols: Mapping[Reason, _Symbol] = field(default_factory=dict)
    roll_up: Mapping[str, RollUp] = field(default_factory=dict)  # By metric

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", {**DEFAULT_SYMBOLS, **self.symbols})
        if self.first_day and self.last_day and self.first_day > self.last_day:
            raise PolicyError(f"first_day {self.first_day} is after last_day {self.last_day}")
        if self.reports_rounding > self.min_reports:
            raise PolicyError(
                f"reports_rounding = {self.reports_rounding} is above min_reports = "
                f"{self.min_reports}: a table of enough reports would be shown with 0"
            )
        twice = [name for name in self.strata if self.strata.count(name) > 1]
        if twice:
            raise PolicyError(f"strata names {shown(twice[0])} twice; once is enough")
        check_spelling(self.strata)
        for inner, outer in self.within.items():
            if inner in outer:
                raise PolicyError(f"within.{shown(inner)}: a stratum cannot lie within itself")

    def check_stratum(self, table: str, name: str) -> None:
        """Raise PolicyError if a stratum that divides `table` may not be published."""
        if name not in self.strata:
            raise PolicyError(
                f"{table}: the policy does not publish the stratum {shown(name)}; it publishes "
                f"{', '.join(self.strata) or 'none'}"
            )

    def with_outer(self, strata: Strata) -> dict[str, str]:
        """Return the strata of a table with all that contain them. Raises PolicyError."""
        whole, waiting = dict(strata), list(strata)
        while waiting:
            inner, value = waiting.pop()
            for outer, places in self.within.get(inner, {}).items():
                if value not in places:
                    raise PolicyError(
                        f"within.{inner}.{outer} does not say in which {outer} {shown(value)} lies"
                    )
                is_new = outer not in whole
                if whole.setdefault(outer, places[value]) != places[value]:
                    raise PolicyError(
                        f"{inner} {shown(value)} lies in {outer} {shown(places[value])}, and not "
                        f"in {shown(whole[outer])}"
                    )
                if is_new:
                    waiting.append((outer, places[value]))
        return whole

    def has_enough(self, num_reports: int) -> bool:
        """Return whether a table with this exact number of reports may be published at all."""
        return num_reports >= self.min_reports

    def rounded_reports(self, num_reports: int) -> int:
        """Return the number of reports that a table shows."""
        return num_reports // self.reports_rounding * self.reports_rounding

    def stand_alone(self, detected: Booleans, low: Floats) -> Booleans:
        """Return which cells may be shown separately in a table or its synthetic rows, (n,).

        Args:
            detected: Whether each cell is tested to be above zero, (n,).
            low: The decoded lower end of each interval, a share of the table's reports, (n,). It is
                compared after rounding down, as it would be published.
        """
        large: Booleans = detected & (round_down(low, self.rounding) >= self.min_low)
        return large

    def symbol(self, reason: Reason) -> str:
        """Return the symbol for a number that was suppressed for this reason."""
        return self.symbols[reason]

    def legend(self) -> dict[str, str]:
        """Return the meaning of each symbol: the reasons for which it is shown."""
        texts_of: dict[str, list[str]] = {}
        for reason, text in REASONS.items():
            texts_of.setdefault(self.symbol(reason), []).append(text)
        return {symbol: "; or ".join(texts) for symbol, texts in texts_of.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as plain values, for the files of a release."""
        return to_plain(self)


def check_days(policy: ReleasePolicy, name: str, first: date, last: date, issued: date) -> None:
    """Raise PolicyError if the policy does not publish some days, or if they are not sealed yet."""
    before = policy.first_day is not None and first < policy.first_day
    after = policy.last_day is not None and last > policy.last_day
    if before or after:
        bounds = (("from", policy.first_day), ("to", policy.last_day))
        days = " ".join(f"{word} {day}" for word, day in bounds if day is not None)
        raise PolicyError(f"{name}: the policy publishes days {days} only")
    if last + timedelta(days=policy.sealed_after_days) > issued:
        raise PolicyError(
            f"{name}: the window is not sealed on {issued}: reports of its last day are accepted "
            f"for {policy.sealed_after_days} days"
        )


def check_spelling(names: Iterable[str]) -> None:
    """Raise PolicyError if names differ only in case, width, spaces or hidden characters.

    Two spellings of one region would count as two strata, whose windows would not be compared."""
    forms: dict[str, str] = {}
    for name in names:
        good = unicodedata.normalize("NFC", name.strip())
        if name != good or not good:
            raise PolicyError(
                f"stratum {shown(name)} has blanks at an end, or letters that are composed "
                f"otherwise (Unicode NFC); write {shown(good)}"
            )
        plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", good).casefold())
        # drop characters that a reader of a page does not see
        folded = "".join(c for c in plain if not c.isspace() and unicodedata.category(c) != "Cf")
        if forms.setdefault(folded, name) != name:
            raise PolicyError(
                f"strata {shown(forms[folded])} and {shown(name)} differ by case, blanks, width or "
                "hidden characters only: choose one"
            )


def load_policy(path: Path) -> ReleasePolicy:
    """Read release.toml. Raises PolicyError with the file, the key and the value."""
    with naming(path):
        return policy_of_text(read_text(path, PolicyError))


def policy_of_text(text: str) -> ReleasePolicy:
    """Parse the text of a release.toml. Raises PolicyError if invalid."""
    return parse_toml(ReleasePolicy, text, PolicyError)
