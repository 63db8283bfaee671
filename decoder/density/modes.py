"""The modes between which a location metric chooses, for one budget, and what each will show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from decoder.density.predicted_error import MapError, predicted_error
from decoder.errors import DecodeError
from rappor_core.errors import ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.location import mode_named
from rappor_core.params import RapporParams

SECOND_DIAL = 0.9  # epsilon_one over epsilon_infinity
BITS = 32  # of a filter
CAPS = 2, 3, 4
HOLD = 4  # periods
_MEMO = f'mode = "memo"\nhold = {HOLD}\n'
SYMBOLS = 2, 3


@dataclass(frozen=True)
class Mode:
    """A way to spend a budget for life on the maps of some periods.

    keys: what is declared for it in a `metrics.toml`.  turns: a device answers once in so many
    periods.  places: distinct cells of a device that it can tell in its life; None for any number.
    The one report hides when a place changed, too; memoised ones (`memoises`) do not.
    """

    name: str
    keys: str
    params: RapporParams
    turns: int = 1
    places: int | None = None

    @property
    def memoises(self) -> bool:
        """Whether devices repeat memoised answers, so that the sequence of answers has no bound."""
        return self.params.mechanism.has_permanent_round


@dataclass(frozen=True)
class Predicted:
    """A mode with the number of reports behind a map of one period and the predicted error of
    that map."""

    mode: Mode
    reports: float
    error: MapError


def modes(budget: float, periods: int, cohorts: int, no_data: bool = False) -> list[Mode]:
    """List the compared modes of a location metric for a lifetime budget (nats).

    A mode that cannot spend the budget (none can tell 1e-6 nats from nothing) is left out.
    periods: that the budget is to last for.  no_data: whether it is a value of its own, which takes
    a place of a cap. Raises DecodeError for a budget that is not above 0, and for no periods.
    """
    if not budget > 0 or periods < 1:
        raise DecodeError(f"budget {budget:g} for {periods} periods: both must be above 0")
    return [mode for plans in _PLANS.values() for mode in plans(budget, periods, cohorts, no_data)]


def _possible(makers: Sequence[Callable[[], Mode]]) -> Iterator[Mode]:
    for make in makers:
        with suppress(ParameterError):  # probabilities over 2^16 do not reach every epsilon
            yield make()


def predict(
    choices: Sequence[Mode], devices: int, cells: int, places: int, slots: int = 1
) -> list[Predicted]:
    """Predict the map of one period and slot by each mode that holds `places`, best first.

    devices: that answer at this level.  places: distinct cells of a device in its life, 1 or more.
    slots: in `window` and `once` a device answers one of them.
    """
    found = []
    for mode in choices:
        if mode.places is not None and mode.places < places:
            continue
        reports = devices / (mode.turns * (1 if mode.memoises else slots))
        found.append(Predicted(mode, reports, predicted_error(mode.params, reports, cells)))
    return sorted(found, key=lambda one: one.error.total_variation)


def _memo_plans(budget: float, periods: int, cohorts: int, no_data: bool) -> Iterator[Mode]:
    """Filters, if a permanent response is used more than once, and symbols."""
    reserved = 2 if no_data else 1
    caps = [cap for cap in CAPS if cap > reserved and periods > 1]
    filters = [partial(_filter, cap, cap - reserved, budget, cohorts) for cap in caps]
    return _possible([*filters, *(partial(_symbols, one, budget, cohorts) for one in SYMBOLS)])


def _window_plans(budget: float, periods: int, cohorts: int, no_data: bool) -> Iterator[Mode]:  # noqa: ARG001
    """One report in all the periods."""
    least, most = mode_named("window").windows
    if not least <= periods <= most:
        return iter(())
    return _possible([partial(_window, budget, periods, cohorts)])


def _once_plans(budget: float, periods: int, cohorts: int, no_data: bool) -> Iterator[Mode]:  # noqa: ARG001
    """One report for the one map."""
    return _possible([partial(_once, budget, cohorts)] if periods == 1 else [])


def _filter(cap: int, places: int, budget: float, cohorts: int) -> Mode:
    keys = f'{_MEMO}mechanism = "l-osue"\nmax_memoized_values = {cap}\n{_bits(cohorts)}'
    mechanism = TwoRoundMechanism.optimised(*_dials(budget / cap))
    return Mode(f"memo, filter, cap {cap}", keys + _epsilon_keys(budget / cap),
                RapporParams(BITS, 1, cohorts, mechanism), places=places)  # fmt: skip


def _symbols(number: int, budget: float, cohorts: int) -> Mode:
    keys = f'{_MEMO}encoding = "symbol"\nnum_symbols = {number}\nnum_cohorts = {cohorts}\n'
    mechanism = TwoRoundMechanism.symbols(number, *_dials(budget / number))
    return Mode(f"memo, {number} symbols", keys + _epsilon_keys(budget / number),
                RapporParams(number, 1, cohorts, mechanism, "symbol"))  # fmt: skip


def _window(budget: float, periods: int, cohorts: int) -> Mode:
    hold = min(HOLD, periods - 1)
    keys = f'mode = "window"\nwindow = {periods}\nturn = "fresh"\nhold = {hold}\nmax_reports = 1\n'
    keys += _bits(cohorts)
    params = RapporParams(BITS, 1, cohorts, TwoRoundMechanism.one_shot(budget))
    return Mode("window", f"{keys}epsilon = {budget}\n", params, turns=periods)


def _once(budget: float, cohorts: int) -> Mode:
    params = RapporParams(BITS, 1, cohorts, TwoRoundMechanism.one_shot(budget))
    return Mode("once", f'mode = "once"\n{_bits(cohorts)}epsilon = {budget}\n', params)


def _bits(cohorts: int) -> str:
    return f"num_bits = {BITS}\nnum_cohorts = {cohorts}\n"


def _dials(epsilon: float) -> tuple[float, float]:
    return epsilon, SECOND_DIAL * epsilon


def _epsilon_keys(epsilon: float) -> str:
    return f"epsilon_infinity = {epsilon}\nepsilon_one = {SECOND_DIAL * epsilon}\n"


Plans = Callable[[float, int, int, bool], Iterator[Mode]]  # budget, periods, cohorts, no_data
_PLANS: dict[str, Plans] = {"memo": _memo_plans, "window": _window_plans, "once": _once_plans}
