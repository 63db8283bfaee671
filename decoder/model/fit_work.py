"""The cost of fitting all candidates, and the decision to fit only some, for the decoder and the
planner."""

from __future__ import annotations

FULL_FIT_PER_ROW = 4  # candidates a row up to which all take part: more would follow the noise
MAX_WORK = 5e9  # multiplications of a round: about a second, and some twenty rounds are usual


def work_of_all(candidates: int, shape: tuple[int, int], num_hashes: int) -> float:
    """Approximate multiplications of an iteration in which all candidates take part. shape:
    cohorts, bits (m, k).

    It is solved in the space of the candidates or, where they are more than half, of the rows.
    """
    cohorts, num_bits = shape
    rows, members = float(cohorts * num_bits), float(candidates)
    if members <= rows // 2:
        return members**2 * (2 * rows + 3 * members) + rows * num_bits**2
    return rows**3 + members * (cohorts * num_hashes) ** 2


def all_may_take_part(candidates: int, shape: tuple[int, int], num_hashes: int) -> bool:
    """Whether a fit of all candidates is affordable and leaves enough degrees of freedom."""
    few = candidates <= FULL_FIT_PER_ROW * shape[0] * shape[1]
    return few and work_of_all(candidates, shape, num_hashes) <= MAX_WORK


def most_active(rows: int) -> int:
    """Largest number of candidates in a fit that does not take all: half of the rows, and no
    more than is affordable."""
    return int(min(rows / 2, (MAX_WORK / (2 * rows)) ** 0.5, (MAX_WORK / 3) ** (1 / 3)))
