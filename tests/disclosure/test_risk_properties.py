"""OPTA, PESA and the orthodox rule against their definitions, on small random tables."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disclosure.errors import TableError
from disclosure.risk import Domain, assess_risk

MISSING = "ND"


@st.composite
def tables(draw):
    """A table of 1 to 12 rows, 1 to 4 columns, 1 to 4 modalities, and up to 3 rules."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    modalities = {f"c{p}": [f"m{v}" for v in range(size)] for p, size in enumerate(sizes)}
    row = st.tuples(*[st.sampled_from([*values, MISSING]) for values in modalities.values()])
    rows = draw(st.lists(row, min_size=1, max_size=12))
    rules = []
    if len(sizes) > 1:
        for _ in range(draw(st.integers(0, 3))):
            names = draw(st.lists(st.sampled_from(sorted(modalities)), min_size=2, unique=True))
            rules.append({name: draw(st.sampled_from(modalities[name])) for name in names})
    columns = dict(zip(modalities, map(list, zip(*rows, strict=True)), strict=True))
    return columns, Domain(modalities, rules)


def brute_force(columns, domain):
    """Frequencies by the definitions (eq. 6 to 11), or None for a row without candidates."""
    rows = list(zip(*columns.values(), strict=True))
    names = list(columns)
    agree = lambda a, b: all(x == y or MISSING in (x, y) for x, y in zip(a, b, strict=True))  # noqa: E731
    keys = [
        key
        for key in itertools.product(*domain.modalities.values())
        if not any(all(key[names.index(n)] == v for n, v in r.items()) for r in domain.incoherent)
    ]
    counts = {key: sum(agree(row, key) for row in rows) for key in keys}
    candidates = [[counts[key] for key in keys if agree(row, key)] for row in rows]
    orthodox = [sum(agree(row, other) for other in rows) for row in rows]
    if not all(candidates):
        return orthodox, None, None
    return orthodox, [max(c) for c in candidates], [min(c) for c in candidates]


@settings(max_examples=60)
@given(tables(), st.sampled_from([2**22, 0]))
def test_each_route_gives_what_the_definitions_give(drawn, max_dense_keys: int) -> None:
    columns, domain = drawn
    orthodox, opta, pesa = brute_force(columns, domain)
    assert assess_risk(columns, domain, "orthodox").frequencies.tolist() == orthodox
    for method, expected in (("opta", opta), ("pesa", pesa)):
        if expected is None:
            with pytest.raises(TableError):
                assess_risk(columns, domain, method, max_dense_keys=max_dense_keys)
        else:
            found = assess_risk(columns, domain, method, max_dense_keys=max_dense_keys)
            assert found.frequencies.tolist() == expected


@settings(max_examples=60)
@given(tables(), st.sampled_from([2**22, 0]))
def test_invariants(drawn, max_dense_keys: int) -> None:
    """1 <= PESA <= OPTA <= orthodox; equal without missing values; unseen modalities lower PESA."""
    columns, domain = drawn
    domain = Domain(domain.modalities)
    wider = Domain({name: [*values, "unseen"] for name, values in domain.modalities.items()})

    def count(table, declared, method):
        return assess_risk(table, declared, method, max_dense_keys=max_dense_keys).frequencies

    orthodox, opta, pesa = (count(columns, domain, m) for m in ("orthodox", "opta", "pesa"))
    assert (pesa >= 1).all()
    assert (pesa <= opta).all()
    assert (opta <= orthodox).all()
    assert (count(columns, wider, "opta") == opta).all()
    assert (count(columns, wider, "pesa") <= pesa).all()
    full = {n: [v.replace(MISSING, "m0") for v in column] for n, column in columns.items()}
    found = [count(full, domain, m).tolist() for m in ("orthodox", "opta", "pesa")]
    assert found[0] == found[1] == found[2]


def large_table(rows: int, sizes: list[int], share_missing: float):
    """Skewed values, as of strata; `share_missing` of each column is not determined."""
    rng = np.random.default_rng(11)
    columns, modalities = {}, {}
    for p, size in enumerate(sizes):
        names = np.array([*(f"v{v}" for v in range(size)), MISSING])
        codes = np.minimum(rng.zipf(1.3, rows) - 1, size - 1)
        codes[rng.random(rows) < share_missing] = size
        columns[f"c{p}"], modalities[f"c{p}"] = names[codes].tolist(), names[:-1].tolist()
    return columns, Domain(modalities)


def test_both_routes_agree_on_a_larger_table() -> None:
    columns, domain = large_table(3_000, [2, 5, 8, 30], 0.15)
    rules = [{"c0": "v0", "c1": "v4"}, {"c1": "v2", "c2": "v1", "c3": "v0"}]
    for declared in (domain, Domain(domain.modalities, rules)):
        kept = {
            name: [v for v, ok in zip(column, coherent(columns, declared), strict=True) if ok]
            for name, column in columns.items()
        }
        for method in ("opta", "pesa"):
            dense = assess_risk(kept, declared, method)
            sparse = assess_risk(kept, declared, method, max_dense_keys=0)
            assert (dense.frequencies == sparse.frequencies).all()


def coherent(columns, domain):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [not any(rule.items() <= row.items() for rule in domain.incoherent) for row in rows]


def test_too_many_ways_to_fill_a_row_are_refused_with_a_remedy() -> None:
    columns, domain = large_table(1_000, [8] * 10, 0.8)
    for method in ("opta", "pesa"):
        with pytest.raises(TableError, match="orthodox, which fills none"):
            assess_risk(columns, domain, method)
    assert assess_risk(columns, domain, "orthodox").minimum >= 1
