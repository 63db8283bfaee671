"""Compare the arms of an experiment, from the joint table of (arm, answer)."""

from dataclasses import dataclass

import numpy as np

from decoder.comparison.differences import Differences, differences
from decoder.errors import DecodeError
from decoder.pairs.decoding import JointTable
from decoder.typing import Floats

MIN_SCORE = 5.0  # Standard errors of an arm's share, below which a ratio to it is unreliable.


@dataclass(frozen=True)
class ArmComparison:
    """Differences between each arm and the control, which is the first value of its side."""

    by: str  # The name of the side that contains the arm.
    control: str
    arms: tuple[str, ...]  # The arm of each row; n rows.
    values: tuple[str, ...]  # The answer of each row.
    control_shares: Floats  # Share of the answer within the control, (n,).
    shares: Floats  # Share of the answer within the arm, (n,).
    rows: Differences


def compare_arms(table: JointTable, by: str, alpha: float) -> ArmComparison:
    """Compare the answers in each arm with the answers in the control.

    The share of answer v within arm a is P_av / P_a, and the error of a difference follows from
    the covariance of all cells by the delta method, so it includes the error of P_a. Differences
    are decided by Benjamini-Hochberg over all arms and answers.

    Args:
        table: The decoded joint table.
        by: The side that contains the arm.
        alpha: Level of the decisions, in (0, 1).

    Returns:
        One row per answer of each arm other than the control.

    Raises:
        DecodeError: The table has no such side, or an arm has too few reports.
    """
    if by not in table.of:
        sides = " and ".join(map(repr, table.of))
        raise DecodeError(f"by = {by!r} is not a side of metric {table.metric!r}: {sides}")
    side = table.of.index(by)
    arms, answers = (table.rows, table.columns) if side == 0 else (table.columns, table.rows)
    margin = table.margin(side)
    for arm, share, error in zip(arms, margin.estimate, margin.std_error, strict=True):
        if share < MIN_SCORE * error:
            raise DecodeError(
                f"{by} {arm!r} has a share of {100 * share:.1f} % with a standard error of "
                f"{100 * error:.1f} %: too few reports to compare; use a longer window or merge "
                "arms"
            )
    # Cells with the arm first, so that each arm's cells are consecutive.
    places = np.arange(table.estimate.size).reshape(table.estimate.shape)
    order = (places if side == 0 else places.T).ravel()
    covariance = table.covariance[np.ix_(order, order)]
    within = table.estimate.ravel()[order].reshape(len(arms), -1) / margin.estimate[:, None]
    count = len(answers)
    slopes = np.zeros((len(arms), count, order.size))
    for place, (shares, total) in enumerate(zip(within, margin.estimate, strict=True)):
        block = slice(place * count, (place + 1) * count)
        slopes[place, :, block] = (np.eye(count) - shares[:, None]) / total
    linear = (slopes[1:] - slopes[0]).reshape(-1, order.size)
    variances = np.einsum("ia,ab,ib->i", linear, covariance, linear)
    difference = (within[1:] - within[0]).ravel()
    return ArmComparison(
        by,
        arms[0],
        tuple(np.repeat(arms[1:], count)),
        tuple(answers) * (len(arms) - 1),
        np.tile(within[0], len(arms) - 1),
        within[1:].ravel(),
        differences(difference, np.sqrt(np.maximum(variances, 0.0)), alpha=alpha),
    )
