"""When batches arrive, and whose they are by that and by their address.

A model of times for the linking attacks. Each device is used at a time of its own, uniform over the
day, normal about it from day to day; what it records then leaves after an exponential delay
(`Delivery.mean_delay`). A relay hides the address, not the time. Times of use that vary less than
`habit` link more; devices that are used at the same hour link less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DAY_SECONDS = 86_400.0
MEAN_DELAY = 600.0  # of `client_sdk.delivery.options`
# 87 % of 2,230 people kept an address for more than a month (Mishra et al., "Don't count me out",
# WWW 2020, doi:10.1145/3366423.3380161)
ADDRESS_CHANGES_A_DAY = -math.log(0.87) / 30

Floats = NDArray[np.float64]
Phases = NDArray[np.complex128]


@dataclass(frozen=True)
class Arrivals:
    """Times of arrival on a circle of `length` seconds.

    mean_delay: seconds from use to sending, on average.
    habit: seconds, standard deviation of a device's time of use about its own.
    length: of the day; shorter for a part of a crowd, which is then as dense as the whole.
    """

    mean_delay: float = MEAN_DELAY
    habit: float = 1_800.0
    length: float = DAY_SECONDS

    def draw(self, days: int, devices: int, rng: np.random.Generator) -> Phases:
        """Times as points of the unit circle, (days, devices)."""
        own = rng.uniform(0, self.length, devices)
        used = own + rng.normal(0, self.habit, (days, devices))
        sent = used + rng.exponential(self.mean_delay, (days, devices))
        return np.asarray(np.exp(2j * np.pi * sent / self.length))

    def fit(self, tracks: Phases, seen: int, arrived: Phases) -> Floats:
        """Log likelihood of each report in each track, but for a constant: (reports, tracks).

        Von Mises about the mean time of a track, with the variance of a time and of that mean.

        Args:
            tracks: sums of the points of a track's reports.
            seen: reports in each track, 1 or more.
            arrived: of the reports to be placed.
        """
        variance = (self.habit**2 + self.mean_delay**2) * (1 + 1 / seen)
        sharpness = (self.length / (2 * np.pi)) ** 2 / max(variance, 1e-9)
        turn = np.angle(arrived[:, None] * tracks.conj()[None, :])
        return np.asarray(sharpness * (np.cos(turn) - 1))


def joined_by_time(devices: int, mean_delay: float = MEAN_DELAY) -> float:
    """Share of devices whose batches of two metrics, recorded in one moment, are joined by time.

    The guess is the nearest batch of the other metric. Two delays differ by Laplace's law, and
    batches of others are uniform over the day: the chance that none of them is nearer is
    1 / (1 + 2 * others in the mean delay).

    Args:
        devices: that send both metrics in a day, 1 or more.
        mean_delay: seconds, of each batch by itself.
    """
    return 1 / (1 + 2 * (devices - 1) * mean_delay / DAY_SECONDS)


def followed_by_address(
    days: Sequence[int], whole: float, rng: np.random.Generator, devices: int = 10_000
) -> list[float]:
    """Share of devices of whose daily reports one address has the part `whole`, in so many days.

    A device has one address at a time, which changes by chance (`ADDRESS_CHANGES_A_DAY`).
    """
    changed = rng.random((max(days), devices)) < ADDRESS_CHANGES_A_DAY
    changed[0] = False
    address = changed.cumsum(axis=0)
    shares = []
    for number in days:
        held = np.zeros((int(address.max()) + 1, devices))
        for today in address[:number]:
            held[today, np.arange(devices)] += 1
        shares.append(float((held.max(axis=0) >= whole * number).mean()))
    return shares
