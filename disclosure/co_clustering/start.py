"""The first groups of a large table: distinct rows that show like parts.

A mixture of products, fitted with hard assignments: each group has its shares of parts, and each
row goes to the group under which it is likeliest.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from disclosure.typing import Integers

_ROUNDS = 6
_PRIOR = 0.5  # pairs added to each part of a group, so that no share is 0


def gather(pairs: csr_matrix, num_groups: int, rng: np.random.Generator) -> Integers:
    """The group of each distinct row, numbered from 0 without gaps.

    pairs: (rows, parts) how often each row shows each part. num_groups: at most; the first members
    are drawn.
    """
    seeds = rng.choice(pairs.shape[0], num_groups, replace=False)
    profiles = pairs[seeds].toarray().astype(float)
    profiles /= profiles.max(axis=1, keepdims=True)
    groups = np.zeros(pairs.shape[0], dtype=np.int64)
    for _ in range(_ROUNDS):
        shares = profiles + _PRIOR * pairs.mean(axis=0).A1 / pairs.mean()
        shares = np.log(shares / shares.sum(axis=1, keepdims=True))
        groups = np.asarray((pairs @ shares.T).argmax(axis=1))
        members = csr_matrix(
            (np.ones(len(groups)), groups, np.arange(len(groups) + 1)),
            shape=(len(groups), len(profiles)),
        )
        profiles = (members.T @ pairs).toarray()
    return np.unique(groups, return_inverse=True)[1].ravel()
