"""`release.toml`: who publishes what, to whom, and what is too small to be shown."""

from __future__ import annotations

import math
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from disclosure.errors import PolicyError
from disclosure.files import naming
from disclosure.release.tables import MAX_REPORTS, round_down
from disclosure.typing import Booleans, Floats, Strata
from rappor_core.errors import file_problem, shown, toml_problem
from rappor_core.text import visible

Reason = Literal["few_reports", "low_interval"]
OnChange = Literal["keep", "revise", "refuse"]
Tree = Literal["cells", "domain", "prefix"]
Within: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]

# One symbol for all tables and one for all rows: another would tell which number is the small one.
REASONS: dict[Reason, str] = {
    "few_reports": "the table has fewer reports than the policy asks for, or would tell of another "
    "number that is not shown",
    "low_interval": "not detected, or the lower end of its interval is below what the "
    "policy shows, or another number that is not shown could be narrowed down by it",
}
DEFAULT_SYMBOLS: dict[Reason, str] = {"few_reports": "c", "low_interval": "u"}
_MAX_SYMBOL = 8
_MAX_LEVELS = 64  # of a tree
_MAX_DAYS = 36_500
_MAX_SHOWN = 60
_UNSAFE_STARTS = "=+-@'"


@dataclass(frozen=True)
class RollUp:
    """The rule for pooling rare values of a metric: along which tree, and at which level of
    error.

    tree: `cells` (parents by name: quadkey, geohash), `domain` (of hosts), `prefix` (of strings),
    or "" for the hierarchy that is given to `build_release`.  levels: parents of cells.
    lengths: of prefixes, falling.  alpha: chance that a pool is shown of values that nobody holds.
    suffixes: public suffixes of two labels or more, for `domain`.
    max_correlation: bound on the correlation of two estimates; None: what the source says.
    """

    tree: Tree | Literal[""] = ""
    levels: int = 1
    lengths: tuple[int, ...] = (3, 2, 1)
    alpha: float = 0.05
    suffixes: tuple[str, ...] = ()
    max_correlation: float | None = None

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.tree not in (*get_args(Tree), ""):
            raise PolicyError(
                f"tree = {shown(self.tree)} is not one of {', '.join(get_args(Tree))}"
            )
        if not 0 < self.alpha < 1:
            raise PolicyError(f"roll_up needs alpha in (0, 1), not {self.alpha}")
        if self.max_correlation is not None and not 0 <= self.max_correlation <= 1:
            raise PolicyError(
                f"roll_up needs max_correlation in [0, 1], not {self.max_correlation}"
            )
        if not 1 <= self.levels <= _MAX_LEVELS or len(self.lengths) > _MAX_LEVELS:
            raise PolicyError(f"roll_up needs from 1 to {_MAX_LEVELS} levels or lengths")


@dataclass(frozen=True)
class ReleasePolicy:
    """The rules of a release: what may be published, and how it is rounded.

    owner, audience: for people.  min_reports: of a table, and of what tables tell together.
    min_low: smallest lower end of an interval that is shown, a share above 0, after rounding.
    rounding: step of shares, a decimal; intervals are widened to it.  reports_rounding: numbers of
    reports are rounded down to a multiple.  sealed_after_days: a window is sealed when its last day
    is so many days ago (the largest accept_days of the metric's versions; 0 where an administrator
    closes days).
    first_day, last_day: of the data that may be published; None: no bound.  strata: names of the
    strata that may be published.  total: whether each table shows the sum of its cells.
    within: strata that lie in others: `within["district"]["region"]` says for each district in
    which region it lies, as a reader knows.
    on_change: of a number that an earlier release shows: `keep` it, `revise` it, or `refuse`.
    symbols: what stands for a suppressed number, by reason.  roll_up: by metric.
    """

    owner: str
    audience: str
    min_reports: int
    min_low: float
    rounding: Decimal
    reports_rounding: int = 1
    sealed_after_days: int = 7
    first_day: date | None = None
    last_day: date | None = None
    strata: tuple[str, ...] = ()
    total: bool = False
    within: Within = field(default_factory=dict)
    on_change: OnChange = "keep"
    symbols: Mapping[Reason, str] = field(default_factory=lambda: dict(DEFAULT_SYMBOLS))
    roll_up: Mapping[str, RollUp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check ranges. Raises PolicyError with the bad value."""
        for name in ("owner", "audience"):
            if not getattr(self, name).strip():
                raise PolicyError(f"{name} is empty")
        for name in ("min_reports", "reports_rounding"):
            if not 1 <= getattr(self, name) <= MAX_REPORTS:
                raise PolicyError(f"{name} = {shown(getattr(self, name))} must be 1 or more, and "
                                  f"{MAX_REPORTS} at most")  # fmt: skip
        if not 0 < self.min_low < 1 or not 0 <= self.sealed_after_days <= _MAX_DAYS:
            raise PolicyError(
                f"min_low = {self.min_low} must lie in (0, 1), and sealed_after_days = "
                f"{shown(self.sealed_after_days)} be from 0 to {_MAX_DAYS}"
            )
        if not Decimal("1e-9") <= self.rounding <= Decimal("0.5"):
            raise PolicyError(f"rounding = {self.rounding} must lie between 1e-9 and 0.5")
        if self.rounding.as_tuple().exponent < -12:  # type: ignore[operator]
            raise PolicyError(f"rounding = {self.rounding} has more than 12 decimals")
        if self.first_day and self.last_day and self.first_day > self.last_day:
            raise PolicyError(f"first_day {self.first_day} is after last_day {self.last_day}")
        if self.reports_rounding > self.min_reports:
            raise PolicyError(
                f"reports_rounding = {self.reports_rounding} is above min_reports = "
                f"{self.min_reports}: a table of enough reports would be shown with 0"
            )
        self._check_strata()
        self._check_words()

    def _check_strata(self) -> None:
        twice = [name for name in self.strata if self.strata.count(name) > 1]
        if twice:
            raise PolicyError(f"strata names {shown(twice[0])} twice; once is enough")
        check_spelling(self.strata)
        for inner, outer in self.within.items():
            if not isinstance(outer, Mapping) or not all(_is_text_map(v) for v in outer.values()):
                raise PolicyError(
                    f"within.{shown(inner)} must name the stratum that it lies in, and for each "
                    'value the value there, as [within.district.region] paris = "ile-de-france"'
                )
            if inner in outer:
                raise PolicyError(f"within.{shown(inner)}: a stratum does not lie in itself")

    def check_stratum(self, table: str, name: str) -> None:
        """Raise PolicyError for a stratum that is not published. table: that is divided by it."""
        if name not in self.strata:
            raise PolicyError(
                f"{table}: the policy does not publish the stratum {shown(name)}; it publishes "
                f"{', '.join(self.strata) or 'none'}"
            )

    def with_outer(self, strata: Strata) -> dict[str, str]:
        """The strata of a table together with all strata that contain them. Raises PolicyError
        where `within` contradicts."""
        found, waiting = dict(strata), list(strata)
        while waiting:
            inner, value = waiting.pop()
            for outer, places in self.within.get(inner, {}).items():
                if value not in places:
                    raise PolicyError(
                        f"within.{inner}.{outer} does not say in which {outer} {shown(value)} lies"
                    )
                is_new = outer not in found
                if found.setdefault(outer, places[value]) != places[value]:
                    raise PolicyError(
                        f"{inner} {shown(value)} lies in {outer} {shown(places[value])}, and not "
                        f"in {shown(found[outer])}"
                    )
                if is_new:
                    waiting.append((outer, places[value]))
        return found

    def has_enough(self, num_reports: int) -> bool:
        """Whether a table of so many reports, not rounded, may be published: also as rows."""
        return num_reports >= self.min_reports

    def rounded_reports(self, num_reports: int) -> int:
        """The number of reports that a table shows."""
        return num_reports // self.reports_rounding * self.reports_rounding

    def stand_alone(self, detected: Booleans, low: Floats) -> Booleans:
        """Which cells of a table may be shown by themselves, in it and in rows of it, (n,).

        Args:
            detected: tested to be above zero, (n,).
            low: lower end of each one's interval as it was decoded, a share of the table's
                reports, (n,). It counts as it would be published, rounded down.
        """
        large: Booleans = detected & (round_down(low, self.rounding) >= self.min_low)
        return large

    def _check_words(self) -> None:
        for name, known in (("on_change", get_args(OnChange)),):
            if getattr(self, name) not in known:
                raise PolicyError(
                    f"{name} = {shown(getattr(self, name))} is not one of {', '.join(known)}"
                )
        unknown = set(self.symbols) - set(REASONS)
        if unknown:
            raise PolicyError(
                f"symbols has the unknown reason {shown(min(unknown))}; known: {', '.join(REASONS)}"
            )
        for reason, symbol in self.symbols.items():
            if not _is_symbol(symbol):
                raise PolicyError(
                    f"symbol {shown(symbol)} of {reason}: 1 to {_MAX_SYMBOL} visible characters, "
                    "no number, and none of = + - @ ' at the start"
                )

    def symbol(self, reason: Reason) -> str:
        """The symbol that stands in place of a number that was suppressed for this reason."""
        return self.symbols.get(reason, DEFAULT_SYMBOLS[reason])

    def legend(self) -> dict[str, str]:
        """What each symbol means: the reasons for which it is shown."""
        found: dict[str, list[str]] = {}
        for reason, text in REASONS.items():
            found.setdefault(self.symbol(reason), []).append(text)
        return {symbol: "; or ".join(texts) for symbol, texts in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """The policy as plain values, for the files of a release."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain |= {name: value and value.isoformat() for name, value in plain.items()
                  if name in ("first_day", "last_day")}  # fmt: skip
        plain["rounding"] = str(self.rounding)
        plain["strata"] = list(self.strata)
        plain["within"] = {
            inner: {name: dict(places) for name, places in outer.items()}
            for inner, outer in self.within.items()
        }
        plain["symbols"] = {reason: self.symbol(reason) for reason in REASONS}
        plain["roll_up"] = {
            metric: {one.name: _plain(getattr(rule, one.name)) for one in fields(rule)}
            for metric, rule in self.roll_up.items()
        }
        return plain


def check_days(policy: ReleasePolicy, name: str, first: date, last: date, issued: date) -> None:
    """Raise PolicyError for days that the policy does not publish, or that are not sealed yet."""
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
    """Raise PolicyError if two names or values differ in spelling alone (case, width, blanks,
    hidden characters).

    Two spellings of one region would be two strata, whose windows nobody compares.
    """
    known: dict[str, str] = {}
    for name in names:
        good = unicodedata.normalize("NFC", name.strip())
        if name != good or not good:
            raise PolicyError(
                f"stratum {shown(name)} has blanks at an end, or letters that are composed "
                f"otherwise (Unicode NFC); write {shown(good)}"
            )
        folded = _folded(good)
        if known.setdefault(folded, name) != name:
            raise PolicyError(
                f"strata {shown(known[folded])} and {shown(name)} differ by case, blanks, width or "
                "hidden characters only: choose one"
            )


def _folded(name: str) -> str:
    """Without what a reader of a page does not see, or takes for the same."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(one for one in plain if not _is_hidden(one))


def _is_hidden(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) == "Cf"


def load_policy(path: Path) -> ReleasePolicy:
    """Read release.toml. Raises PolicyError that names the file, the key and the value."""
    with naming(path):
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(file_problem(error)) from None
        return policy_of_text(text)


def policy_of_text(text: str) -> ReleasePolicy:
    """Read a policy from the text of a release.toml. Raises PolicyError."""
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except RecursionError:
        raise PolicyError("it is nested too deeply") from None
    except ArithmeticError:
        raise PolicyError("not TOML: a number in it has too many digits") from None
    except ValueError as error:
        raise PolicyError(toml_problem(error)) from None
    return parse_policy(table)


def parse_policy(table: Mapping[str, Any]) -> ReleasePolicy:
    """A policy from the tables of release.toml. Raises PolicyError."""
    values = _typed(table, _KINDS, "")
    missing = [name for name in _REQUIRED if name not in values]
    if missing:
        raise PolicyError(f"keys missing: {', '.join(missing)}")
    symbols = values.get("symbols", {})
    if not all(isinstance(symbol, str) for symbol in symbols.values()):
        name = next(name for name, symbol in symbols.items() if not isinstance(symbol, str))
        raise PolicyError(f"symbols.{shown(name)} = {_toml(symbols[name])} is not {_WORDS[str]}")
    rules = {}
    for metric, rule in values.get("roll_up", {}).items():
        if not isinstance(rule, Mapping):
            raise PolicyError(f"roll_up.{shown(metric)} must be a table")
        rules[metric] = RollUp(**_typed(rule, _ROLL_UP_KINDS, f"roll_up.{metric}."))
    return ReleasePolicy(**values | {"symbols": symbols, "roll_up": rules})


_REQUIRED = ("owner", "audience", "min_reports", "min_low", "rounding")
_KINDS = {
    "owner": str,
    "audience": str,
    "min_reports": int,
    "min_low": float,
    "rounding": Decimal,
    "reports_rounding": int,
    "sealed_after_days": int,
    "first_day": date,
    "last_day": date,
    "strata": tuple,
    "total": bool,
    "within": dict,
    "on_change": str,
    "symbols": dict,
    "roll_up": dict,
}
_ROLL_UP_KINDS = {
    "tree": str,
    "levels": int,
    "lengths": list,
    "alpha": float,
    "suffixes": tuple,
    "max_correlation": float,
}


_WORDS = {
    str: "a text in quotes",
    int: "a whole number without point or exponent",
    float: "a number",
    Decimal: "a number",
    bool: "true or false",
    date: "a day, as 2026-11-02 without quotes",
    dict: "a table",
    list: "a list of whole numbers",
    tuple: "a list of texts in quotes",
}


def _toml(value: object) -> str:
    """A value of a policy about as it is written there, for a message."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)[:_MAX_SHOWN] if isinstance(value, Decimal | date) else shown(value)


def _typed(table: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values of a table, each of its kind. Raises PolicyError for unknown keys too."""
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in kinds:
            raise PolicyError(f"unknown key {where}{shown(name)}; known: {', '.join(kinds)}")
        kind, good = kinds[name], value
        if kind in (float, Decimal) and type(value) in (int, Decimal):
            huge = type(value) is int and abs(value) > MAX_REPORTS
            good = math.inf if huge else kind(value)
        elif (kind is tuple and _all_are(value, str)) or (kind is list and _all_are(value, int)):
            good = tuple(value)
        elif type(value) is not kind:
            raise PolicyError(f"{where}{name} = {_toml(value)} is not {_WORDS[kind]}")
        if isinstance(good, float | Decimal) and not math.isfinite(good):
            raise PolicyError(f"{where}{name} = {_toml(value)} is not finite")
        values[name] = good
    return values


def _is_text_map(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for one in value.values())


def _all_are(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(type(item) is kind for item in value)


def _is_symbol(symbol: str) -> bool:
    if not symbol or len(symbol) > _MAX_SYMBOL or visible(symbol) != symbol:
        return False
    if symbol[0] in _UNSAFE_STARTS or symbol != symbol.strip():
        return False
    try:
        float(symbol)
    except ValueError:
        return True
    return False


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
