"""The ten tables of the OPTA/PESA text, with its error in rows c3 of Tables 3 and 5 corrected."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disclosure.errors import DomainError, TableError
from disclosure.risk import Domain, assess_risk, load_domain
from disclosure.risk.missing_values import encode_columns
from disclosure.risk.patterns import find_patterns, potential_frequencies
from rappor_cli import main as cli

SEXES = ["Féminin", "Masculin"]
NATIONS = ["Marocaine", "Étrangère"]
FM1 = {
    "sexe": ["Masculin", "Féminin", "Masculin", "Féminin", "ND", "ND", "ND"],
    "nationalité": ["Marocaine", "Marocaine", "ND", "ND", "Étrangère", "Marocaine", "Marocaine"],
}
FM1_DOMAIN = Domain({"sexe": SEXES, "nationalité": NATIONS})
FM1_STATELESS = Domain({"sexe": SEXES, "nationalité": [*NATIONS, "Apatride"]})

STATUSES = ["Salarié", "Employeur", "Indépendant", "Aide familial", "Inactif"]
FM2 = {
    "type": ["Inactif", "Actif", "Actif", "Inactif", "Actif", "ND", "Actif"],
    "statut": ["Inactif", "Salarié", "ND", "Inactif", "Employeur", "ND", "Indépendant"],
}
INCOHERENT = [
    {"type": "Actif", "statut": "Inactif"},
    *({"type": "Inactif", "statut": status} for status in STATUSES[:4]),
]
FM2_FREE = Domain({"type": ["Actif", "Inactif"], "statut": STATUSES})
FM2_COHERENT = Domain({"type": ["Actif", "Inactif"], "statut": STATUSES}, INCOHERENT)

both_routes = pytest.mark.parametrize("max_dense_keys", [2**22, 0], ids=["dense", "sparse"])


def frequencies(table, domain, method, max_dense_keys=2**22):
    return assess_risk(table, domain, method, max_dense_keys=max_dense_keys).frequencies.tolist()


def test_table_1_lets_missing_values_agree_with_everything() -> None:
    """Equation (3) as printed gives 1 1 1 1 1 2 2: its prose and its table are followed."""
    assert frequencies(FM1, FM1_DOMAIN, "orthodox") == [4, 4, 5, 5, 3, 6, 6]


@pytest.mark.parametrize(
    ("sex", "expected"), [("Féminin", [4, 4, 4, 5, 2, 6, 6]), ("Masculin", [4, 4, 5, 4, 2, 6, 6])]
)
def test_table_2_fills_the_sex_of_the_fifth(sex: str, expected: list[int]) -> None:
    filled = FM1 | {"sexe": [*FM1["sexe"][:4], sex, "ND", "ND"]}
    assert frequencies(filled, FM1_DOMAIN, "orthodox") == expected


def compatible_rows(table, domain):
    """For each candidate key, in order, the rows (from 1) compatible with it."""
    codes = encode_columns(table, domain)
    keys = np.stack(np.meshgrid(*map(np.arange, domain.sizes), indexing="ij"), -1)
    return [
        (np.flatnonzero(((codes == key) | (codes < 0)).all(axis=1)) + 1).tolist()
        for key in keys.reshape(-1, len(domain.sizes))
    ]


@pytest.mark.parametrize(
    ("table", "domain", "rows"),
    [
        # key c3, a foreign woman: the text prints rows 3 and 5; row 3 is a man
        (FM1, FM1_DOMAIN, [[2, 4, 6, 7], [4, 5], [1, 3, 6, 7], [3, 5]]),
        (FM1, FM1_STATELESS, [[2, 4, 6, 7], [4, 5], [4], [1, 3, 6, 7], [3, 5], [3]]),
        (
            FM2,
            FM2_FREE,
            [[2, 3, 6], [3, 5, 6], [3, 6, 7], [3, 6], [3, 6], [6], [6], [6], [6], [1, 4, 6]],
        ),
    ],
    ids=["table 3", "table 5", "table 8"],
)
def test_potential_frequencies_of_tables_3_5_and_8(table, domain, rows) -> None:
    patterns = find_patterns(encode_columns(table, domain), domain.sizes)
    assert compatible_rows(table, domain) == rows
    assert potential_frequencies(patterns, [], largest=True)[0].ravel().tolist() == [
        len(found) for found in rows
    ]


@both_routes
@pytest.mark.parametrize(
    ("table", "domain", "method", "expected"),
    [
        (FM1, FM1_DOMAIN, "opta", [4, 4, 4, 4, 2, 4, 4]),
        (FM1, FM1_DOMAIN, "pesa", [4, 4, 2, 2, 2, 4, 4]),
        (FM1, FM1_STATELESS, "opta", [4, 4, 4, 4, 2, 4, 4]),
        (FM1, FM1_STATELESS, "pesa", [4, 4, 1, 1, 2, 4, 4]),
        (FM2, FM2_FREE, "orthodox", [3, 3, 5, 3, 3, 7, 3]),
        (FM2, FM2_FREE, "opta", [3] * 7),
        (FM2, FM2_FREE, "pesa", [3, 3, 2, 3, 3, 1, 3]),
        (FM2, FM2_COHERENT, "opta", [3] * 7),
        (FM2, FM2_COHERENT, "pesa", [3, 3, 2, 3, 3, 2, 3]),
    ],
    ids=["4", "4 pesa", "6", "6 pesa", "7", "7 opta", "9", "10 opta", "10"],
)
def test_tables_4_6_7_9_and_10(table, domain, method, expected, max_dense_keys) -> None:
    assert frequencies(table, domain, method, max_dense_keys) == expected


@both_routes
def test_modalities_that_nobody_shows_must_be_declared(max_dense_keys: int) -> None:
    """Without the helper in the family, PESA sees no risk at all."""
    seen = [status for status in STATUSES if status != "Aide familial"]
    rules = [rule for rule in INCOHERENT if rule["statut"] in seen]
    domain = Domain({"type": ["Actif", "Inactif"], "statut": seen}, rules)
    assert frequencies(FM2, domain, "pesa", max_dense_keys) == [3] * 7


@both_routes
@pytest.mark.parametrize("method", ["opta", "pesa"])
@pytest.mark.parametrize("row", [("Actif", "Inactif"), ("ND", "Salarié")])
def test_a_row_without_coherent_completion_is_refused(row, method, max_dense_keys) -> None:
    """The text does not treat it: its set of candidates is empty."""
    rules = [*INCOHERENT, {"type": "Actif", "statut": "Salarié"}]
    domain = Domain({"type": ["Actif", "Inactif"], "statut": STATUSES}, rules)
    table = {"type": ["Inactif", row[0]], "statut": ["Inactif", row[1]]}
    with pytest.raises(TableError, match="row 2 has no coherent completion"):
        frequencies(table, domain, method, max_dense_keys)


def test_undeclared_values_are_named() -> None:
    with pytest.raises(TableError, match="row 2: column 'sexe' does not declare 'X'"):
        frequencies({"sexe": ["Masculin", "X"]}, Domain({"sexe": SEXES}), "pesa")


DOMAIN_TOML = """
missing = "ND"
[columns]
type = ["Actif", "Inactif"]
statut = ["Salarié", "Employeur", "Indépendant", "Aide familial", "Inactif"]
""" + "".join(
    f'[[incoherent]]\ntype = "{rule["type"]}"\nstatut = "{rule["statut"]}"\n' for rule in INCOHERENT
)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rows = zip(*FM2.values(), "abcdefg", strict=True)
    lines = ["type,statut,name", *map(",".join, rows)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "domain.toml").write_text(DOMAIN_TOML, encoding="utf-8")
    return tmp_path


def test_the_command_prints_frequencies_and_is_a_gate(files: Path, capsys) -> None:
    inputs = ["release", "risk", str(files / "table.csv"), "--columns", "type,statut"]
    inputs += ["--domain", str(files / "domain.toml")]
    assert cli.main([*inputs, "--method", "pesa", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == {"frequencies": [3, 3, 2, 3, 3, 2, 3], "minimum": 2}
    assert cli.main([*inputs, "--k", "3"]) == 1
    assert "2 rows have a key of fewer than 3" in capsys.readouterr().out
    assert cli.main([*inputs, "--k", "3", "--method", "opta"]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[columns]\na = ['x', 'x']", "repeats"),
        ("[columns]\na = ['x', 'ND']", "missing value"),
        ("[columns]\na = 'x'", "columns.a = 'x': Input should be a valid array"),
        ("missing = 'ND'", "columns: Field required"),
        ("[columns]\na = ['x']\n[[incoherent]]\na = 'x'", "two columns"),
        ("[columns]\na = ['x']\nb = ['y']\n[[incoherent]]\na = 'x'\nb = 'z'", "'z'"),
        ("[columns", "not TOML"),
    ],
)
def test_a_domain_that_cannot_be_used_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "domain.toml"
    file.write_text(text)
    with pytest.raises(DomainError) as refused:
        load_domain(file)
    assert message in str(refused.value)
    assert str(file) in str(refused.value)


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


def test_too_many_ways_to_fill_a_row_are_refused_with_a_remedy() -> None:
    columns, domain = large_table(1_000, [8] * 10, 0.8)
    for method in ("opta", "pesa"):
        with pytest.raises(TableError, match="orthodox, which fills none"):
            assess_risk(columns, domain, method)
    assert assess_risk(columns, domain, "orthodox").minimum >= 1
