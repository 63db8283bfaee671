"""The settings of the calibration: reports, parameters, distributions and lists, by name."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoder.typing import Floats

DISTRIBUTIONS = ("uniform", "exp", "gauss", "zipf1", "zipf1.5")
Missing = Literal["none", "every tenth", "heaviest", "all"]  # The values that a list lacks


class Configuration(NamedTuple):
    """The noise (f, p, q), the values that the list lacks, and the wrong strings per held value."""

    prob_f: float
    prob_p: float
    prob_q: float
    missing: Missing
    wrong: float


class Size(NamedTuple):
    """The numbers of reports, held values, bits k and cohorts m, and the settings to run."""

    reports: int
    values: int
    num_bits: int
    num_cohorts: int
    configurations: Mapping[str, Configuration]
    distributions: tuple[str, ...] = DISTRIBUTIONS


GOOGLE: Mapping[str, Configuration] = {
    "typical": Configuration(0.45, 0.39, 0.61, "every tenth", 0.2),
    "sharp": Configuration(0.45, 0.39, 0.61, "none", 0.0),
    "loose": Configuration(0.0, 0.225, 0.775, "every tenth", 0.2),
    "over_x2": Configuration(0.45, 0.39, 0.61, "every tenth", 2.0),
    "over_x10": Configuration(0.45, 0.39, 0.61, "every tenth", 10.0),
}
PAPER: Mapping[str, Configuration] = {
    "200": Configuration(0.5, 0.5, 0.75, "none", 1.0),
    "10,000": Configuration(0.5, 0.5, 0.75, "none", 99.0),
    "nothing true": Configuration(0.5, 0.5, 0.75, "all", 2.0),
}
FEW_ROWS: Mapping[str, Configuration] = {
    "loose": Configuration(0.0, 0.225, 0.775, "every tenth", 0.6),
    "nothing true": Configuration(0.0, 0.225, 0.775, "all", 1.5),
}


def _loose(missing: Missing, wrong: float) -> Configuration:
    return Configuration(0.0, 0.225, 0.775, missing, wrong)


DOMINANT = ("0.50", "0.70", "0.90", "0.97", "0.99")  # The largest share; 60 others are equal
ZIPF: tuple[str, ...] = ("zipf1",)
LOOSE_OR_NONE: Mapping[str, Configuration] = {
    "loose": _loose("every tenth", 3.0), "nothing true": _loose("all", 3.0)
}  # fmt: skip
LOOSE = {"loose": LOOSE_OR_NONE["loose"]}
HALF: tuple[str, ...] = ("one 0.50",)


def _one_loose(missing: Missing, wrong: float) -> dict[str, Configuration]:
    return {"heaviest missing" if missing == "heaviest" else "loose": _loose(missing, wrong)}


STRESS: Mapping[str, Size] = {
    **{
        f"dominant {share}": Size(
            10_000_000, 61, 32, 32, _one_loose("none", 150 / 61), (f"one {share}",)
        )
        for share in DOMINANT
    },
    "dense rows": Size(
        100_000_000, 1_400, 8, 200, _one_loose("none", 300 / 1_400), ("uniform",)
    ),
    "3.7 a row": Size(
        1_000_000, 100, 8, 17,
        _one_loose("every tenth", 4.1) | {"nothing true": _loose("all", 5.0)}, ZIPF,
    ),
    "3.9 a row": Size(1_000_000, 100, 8, 32, _one_loose("every tenth", 9.1), ZIPF),
    "10 a row": Size(1_000_000, 100, 16, 32, _one_loose("every tenth", 50.3), ZIPF),
    "one cohort": Size(
        1_000_000, 41, 128, 1,
        _one_loose("heaviest", 4.0) | {"nothing true": _loose("all", 4.0)}, HALF,
    ),
    "one of 16 bits": Size(1_000_000, 10, 16, 1, _one_loose("heaviest", 1.0), HALF),
}  # fmt: skip
FEW_COHORTS: Mapping[str, Size] = {
    "1 of 256 bits": Size(100_000, 60, 256, 1, LOOSE_OR_NONE, ZIPF),
    "1 of 192 bits": Size(
        1_000_000, 60, 192, 1, {"paper": Configuration(0.5, 0.5, 0.75, "every tenth", 3.0)}, ZIPF
    ),
    "2 of 128 bits": Size(100_000, 60, 128, 2, LOOSE, ZIPF),
    "2 of 128 bits, short": Size(
        1_000_000, 60, 128, 2, {"loose": _loose("every tenth", 0.5)}, ("exp",)
    ),
    "4 of 64 bits": Size(1_000_000, 60, 64, 4, _one_loose("heaviest", 3.0), ("one 0.30",)),
    "8 of 32 bits": Size(100_000, 60, 32, 8, _one_loose("heaviest", 3.0), HALF),
    "8 of 128 bits": Size(1_000_000, 60, 128, 8, LOOSE, ZIPF),
}
SIZES: Mapping[str, Size] = {
    "small": Size(1_000_000, 100, 8, 128, GOOGLE),
    "medium": Size(10_000_000, 1_000, 8, 128, GOOGLE),
    "large": Size(100_000_000, 10_000, 8, 128, GOOGLE),
    "paper": Size(1_000_000, 100, 128, 16, PAPER, ("exp",)),
    "few rows": Size(1_000_000, 100, 8, 16, FEW_ROWS),
    **STRESS,
    **FEW_COHORTS,
}


def shares_of(distribution: str, n: int) -> Floats:
    """Return the shares of n values from the named distribution, (n,), with sum 1.

    In "one .9", the first value has .9, and the others share the remainder equally."""
    if distribution.startswith("one "):
        largest = float(distribution.removeprefix("one "))
        return np.append(largest, np.full(n - 1, (1 - largest) / (n - 1)))
    i = np.arange(1, n + 1)
    weights = {
        "uniform": np.ones(n),
        "exp": np.exp(-5 * i / n),
        "gauss": np.exp(-0.5 * ((i - (n + 1) / 2) / (n / 6)) ** 2),
        "zipf1": 1 / i,
        "zipf1.5": i**-1.5,
    }[distribution]
    return np.asarray(weights / weights.sum())


def kept_of(missing: Missing, n: int) -> NDArray[np.bool_]:
    """Return which of n values, in order of decreasing shares, are on the list, (n,)."""
    number = np.arange(1, n + 1)
    rules = {"none": number > 0, "every tenth": number % 10 != 9, "heaviest": number > 1}
    return np.asarray(rules.get(missing, number < 0))
