"""A prediction of a map's error before any report is sent.

See docs/method.md, "How far a map will be off". Each cell is treated as if observed alone, through
normal noise with variance

    tau^2 = noise / N + (sum of the mean squared errors of all cells at tau^2) / (m (k - 1)).
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from decoder.density.field_prior import field_weights
from decoder.errors import DecodeError
from decoder.typing import Floats
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.location import mode_named
from rappor_core.params import RapporParams

REFERENCE_STRENGTH = 0.2  # Strength of the prior from which the reference map is drawn
_MAX_SIDE = 64  # Maximum side of the lattice for the prior's precisions
_LEVELS = 48  # The number of values for a cell's information in the table of variances
SECOND_DIAL = 0.9  # epsilon_one divided by epsilon_infinity
BITS = 32  # Bits of a filter
CAPS = 2, 3, 4
HOLD = 4  # Periods
_MEMO = f'mode = "memo"\nhold = {HOLD}\n'
SYMBOLS = 2, 3
_DECLARED = """
[metrics.map]
kind = "location"
description = "a mode"
owner = "plan"
expires = 9999-12-31
grid = "square"
box = [0, 0, 1, 1]
rows = 1
columns = 1
levels = [0]
period = "month"
"""


@dataclass(frozen=True)
class MapError:
    """A map's predicted error, computed on the reference map."""

    total_variation: float  # Expected, in [0, 1]
    even: float  # The total variation of a map with the same share in all cells


@dataclass(frozen=True)
class Reference:
    """A reference map of n cells."""

    shares: Floats  # The share of each cell, (n,), with sum 1
    precisions: Floats  # The precisions of the prior's modes

    def variances(self, noise: float) -> Floats:
        """Return the posterior variance of each log share, (n,), at noise variance tau^2.

        Each variance is computed as on a lattice where the information s^2 / tau^2 is the same
        everywhere."""
        information = self.shares**2 / noise
        levels = np.geomspace(information.min(), information.max(), _LEVELS)
        variances = (1 / (self.precisions + levels[:, None])).mean(axis=1)
        return np.asarray(np.exp(np.interp(np.log(information), np.log(levels), np.log(variances))))

    def squared(self, noise: float) -> float:
        """Return the sum of the shares' mean squared errors at noise variance tau^2 of a share."""
        return float((self.shares**2 * self.variances(noise)).sum())

    def total_variation(self, noise: float) -> float:
        """Return the expected total variation of an estimated map, at most `even`."""
        errors = self.shares * np.sqrt(self.variances(noise))
        return min(float(errors.sum()) / math.sqrt(2 * math.pi), self.even)

    @property
    def even(self) -> float:
        """Return the total variation between the reference map and a map of equal shares."""
        return float(np.abs(self.shares - 1 / len(self.shares)).sum() / 2)


@lru_cache(maxsize=16)
def reference_map(cells: int) -> Reference:
    """Build the reference map from quantiles of log shares, normal with the prior's variance."""
    side = min(max(2, round(math.sqrt(cells))), _MAX_SIDE)
    slopes = 2 - 2 * np.cos(np.pi * np.arange(side) / side)
    laplacian = (slopes[:, None] + slopes).ravel()[1:]  # Without the constant mode
    precisions = REFERENCE_STRENGTH * field_weights(laplacian)
    ranks = ndtri((np.arange(cells) + 0.5) / cells)
    weights = np.exp(ranks * math.sqrt(float((1 / precisions).mean())))
    return Reference(weights / weights.sum(), precisions)


def noise_of(params: RapporParams) -> float:
    """Return the variance that one report's bits give a cell's share (N reports: divide by N).

    Each bit is assumed to be set by 1 in k of the devices."""
    k, gap = params.num_bits, params.q_star - params.p_star
    if params.scheme.symbols:
        return 1 / (gap**2 * (k - 1))  # A multinomial of k symbols
    rate = params.p_star + gap / k
    return rate * (1 - rate) / (gap**2 * (1 - 1 / k))


def predicted_error(params: RapporParams, reports: float, cells: int) -> MapError:
    """Predict the total variation of a map.

    Args:
        params: The parameters of the metric.
        reports: The number of reports behind the map, one per device.
        cells: The number of cells n, 2 or more.

    Raises:
        DecodeError: There are fewer than two cells, or no reports.
    """
    if cells < 2 or not reports > 0:
        raise DecodeError(f"{cells} cells and {reports:g} reports cannot make a map")
    free = math.inf if params.scheme.own_bits else params.num_cohorts * (params.num_bits - 1)
    reference = reference_map(cells)
    noise = effective_noise(reference, noise_of(params) / reports, free)
    return MapError(reference.total_variation(noise), reference.even)


def effective_noise(reference: Reference, noise_alone: float, free: float) -> float:
    """Solve for the noise variance tau^2 of a cell's share.

    Args:
        reference: The map.
        noise_alone: The variance from a cell's own bits.
        free: The number of a metric's free counters; inf if no two cells share a bit.
    """
    if math.isinf(free):
        return noise_alone

    def gap(log_noise: float) -> float:
        noise = math.exp(log_noise)
        return noise - noise_alone - reference.squared(noise) / free

    most = noise_alone + float((reference.shares**2).sum() / reference.precisions.min()) / free
    return math.exp(brentq(gap, math.log(noise_alone), math.log(2 * most)))


@dataclass(frozen=True)
class Mode:
    """A way to spend a lifetime budget on the maps of several periods."""

    name: str
    keys: str  # Its keys in a `metrics.toml`
    params: RapporParams
    turns: int = 1  # A device answers once in this number of periods
    places: int | None = None  # Maximum distinct cells per device lifetime; None means any number

    @property
    def memoizes(self) -> bool:
        """Return whether devices repeat memoized answers, so that a sequence has no bound."""
        return self.params.mechanism.has_permanent_round


@dataclass(frozen=True)
class Predicted:
    """A mode, the number of reports behind one period's map, and the map's predicted error."""

    mode: Mode
    reports: float
    error: MapError


def modes(budget: float, periods: int, cohorts: int, no_data: bool = False) -> list[Mode]:
    """List the modes in which a location metric can spend a lifetime budget, for comparison.

    Args:
        budget: The budget, in nats.
        periods: The number of periods that the budget covers.
        cohorts: The number of cohorts of the metric.
        no_data: Whether "no data" is a separate value, which counts toward the cap.

    Raises:
        DecodeError: The budget is not positive, or there are no periods.
    """
    if not budget > 0 or periods < 1:
        raise DecodeError(f"budget {budget:g} for {periods} periods: both must be above 0")
    reserved = 2 if no_data else 1
    bits = f"num_bits = {BITS}\nnum_cohorts = {cohorts}\n"
    options: list[tuple[str, str, int, int | None]] = [
        (f"memo, filter, cap {cap}", f'{_MEMO}mechanism = "l-osue"\nmax_memoized_values = {cap}\n'
         f"{bits}{_epsilons(budget / cap)}", 1, cap - reserved)
        for cap in CAPS if cap > reserved and periods > 1
    ]  # fmt: skip
    options += [
        (f"memo, {number} symbols", f'{_MEMO}encoding = "symbol"\nnum_symbols = {number}\n'
         f"num_cohorts = {cohorts}\n{_epsilons(budget / number)}", 1, None)
        for number in SYMBOLS
    ]  # fmt: skip
    least, most = mode_named("window").windows
    if least <= periods <= most:
        hold = min(HOLD, periods - 1)
        window = f'mode = "window"\nwindow = {periods}\nturn = "fresh"\nhold = {hold}\n'
        keys = f"{window}max_reports = 1\n{bits}epsilon = {budget}\n"
        options.append(("window", keys, periods, None))
    if periods == 1:
        options.append(("once", f'mode = "once"\n{bits}epsilon = {budget}\n', 1, None))
    usable = []
    for name, keys, turns, places in options:
        with suppress(MetricsFileError):  # Multiples of 2^-16 cannot express every epsilon
            (metric,) = parse_metrics(_DECLARED + keys).parts("map")
            usable.append(Mode(name, keys, metric.params, turns, places))
    return usable


def _epsilons(epsilon: float) -> str:
    return f"epsilon_infinity = {epsilon}\nepsilon_one = {SECOND_DIAL * epsilon}\n"


def predict(
    choices: Sequence[Mode], devices: int, cells: int, places: int, slots: int = 1
) -> list[Predicted]:
    """Predict the map of one period and slot for each mode that allows `places`, best first.

    Args:
        choices: The modes.
        devices: The number of devices that answer at this level.
        cells: The number of cells of the map.
        places: The number of distinct cells of a device in its lifetime, 1 or more.
        slots: The number of slots. In `window` and `once`, a device answers for only one slot.
    """
    rows = []
    for mode in choices:
        if mode.places is None or mode.places >= places:
            reports = devices / (mode.turns * (1 if mode.memoizes else slots))
            rows.append(Predicted(mode, reports, predicted_error(mode.params, reports, cells)))
    return sorted(rows, key=lambda item: item.error.total_variation)
