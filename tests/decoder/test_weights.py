"""Weights declared before the data: rules by their definition, levels whatever the weights."""

import csv
import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode
from decoder.candidates.files import Weights, read_weights
from decoder.errors import CandidatesError, DecodeError
from decoder.inference.multiple_testing import WEIGHTED, Correction, decide, null_share
from decoder.kinds.values import write_outputs
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

LEVEL = 0.05
RULES: tuple[Correction, ...] = ("bonferroni", "bh", "fdr")
VALUES = [f"site-{number}.example" for number in range(60)]


def even(weights: np.ndarray) -> np.ndarray:
    return weights / weights.mean()


def by_definition(p: np.ndarray, w: np.ndarray, rule: str, alpha: float) -> np.ndarray:
    """Each rule in the words of its paper, one hypothesis after the other."""
    total = len(p)
    found = np.zeros(total, dtype=bool)
    if rule == "bonferroni":
        return p <= alpha * w / w.sum()
    share, may = 1.0, np.ones(total, dtype=bool)
    if rule == "fdr":
        share, may = (w[p > 0.9].sum() + w.max()) / (0.1 * w.sum()), p <= 0.9
    for number in range(total, 0, -1):
        found = may & (p <= alpha * number * w / (w.sum() * share))
        if found.sum() >= number:
            return found
    return np.zeros(total, dtype=bool)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(6))
def test_rules_are_those_of_their_papers(rule: Correction, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.random(60) ** np.where(rng.random(60) < 0.3, 6, 1)
    w = even(rng.gamma(0.5, size=60) + 1e-3)
    decision = decide(p, p, rule, 0.2, weights=w)
    assert decision.detected.tolist() == by_definition(p, w, rule, 0.2).tolist()
    assert (decision.detected == (decision.adjusted <= 0.2)).all()
    found = np.flatnonzero(decision.detected)
    if len(found):
        assert (p[found] <= decision.largest(found) * (1 + 1e-12)).all()


@pytest.mark.parametrize("rule", RULES)
def test_even_weights_change_nothing_to_the_last_bit(rule: Correction) -> None:
    p = np.random.default_rng(1).random(200) ** 4
    plain, weighted = decide(p, p, rule, 0.1), decide(p, p, rule, 0.1, weights=np.ones(200))
    assert plain.adjusted.tobytes() == weighted.adjusted.tobytes()
    assert plain.cutoff == weighted.cutoff
    assert null_share(p) == null_share(p, np.ones(200))


@pytest.mark.statistical
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "wrong",
    [
        "against the truth",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("a few heavy", "gamma")),
    ],
)
def test_a_wrong_prior_keeps_the_level(rule: Correction, wrong: str) -> None:
    """6,000 lists of 40 uniform p-values and 20 of held strings; false alarms .6 % each."""
    rng, runs = np.random.default_rng(5), 6000
    held = np.arange(60) >= 40
    w = {
        "a few heavy": np.where(np.arange(60) < 3, 1e3, 1.0),
        "gamma": rng.gamma(0.2, size=60) + 1e-3,
        "against the truth": np.where(held, 0.01, 1.0),
    }[wrong]
    losses = []
    for _ in range(runs):
        p = rng.random(60) ** np.where(held, 5, 1)
        found = decide(p, p, rule, LEVEL, weights=even(w)).detected
        bad = float((found & ~held).sum())
        losses.append(bad / max(found.sum(), 1) if rule in ("bh", "fdr") else float(bad > 0))
    error = float(np.std(losses)) / np.sqrt(runs)
    assert np.mean(losses) <= LEVEL + 2.5 * error


@pytest.mark.statistical
def test_weights_by_p_values_break_the_level() -> None:
    """So the test above can fail: weights must be declared before the data."""
    rng = np.random.default_rng(6)
    lists = rng.random((2000, 60))
    found = [decide(p, p, "bonferroni", LEVEL, weights=even(1 / p)).detected.any() for p in lists]
    assert np.mean(found) > 2 * LEVEL


def aggregate(seed: int = 1, reports: int = 60_000) -> Aggregate:
    params = RapporParams(32, 2, 32, TwoRoundMechanism.rappor(0.5, 0.4, 0.6))
    shares = np.append(0.2, np.full(19, 0.8 / 19))
    drawn, _ = draw_aggregate(VALUES[:20], shares, reports, params, np.random.default_rng(seed))
    return drawn


def test_a_right_prior_finds_more_and_says_so(tmp_path: Path) -> None:
    drawn, candidates = aggregate(), Candidates.from_strings(VALUES)
    right = Weights(dict.fromkeys(VALUES[:20], 30.0), 1.0)
    options = {"correction": "bonferroni", "alpha": LEVEL}
    plain = decode(drawn, candidates, DecodeOptions(**options))
    result = decode(drawn, candidates, DecodeOptions(**options, weights=right))
    assert result.summary.num_detected > plain.summary.num_detected > 0
    assert all(row.low > 0 for row in result.detected)
    write_outputs(result, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())["weights"]
    assert manifest["sha256"] == right.digest
    assert manifest["most"] == pytest.approx(30 * manifest["least"])
    (first, *_) = csv.DictReader((tmp_path / "candidates.csv").read_text().splitlines())
    assert float(first["weight"]) == pytest.approx(30 * 60 / (20 * 30 + 40))
    assert "p-values divided by weights of 0.094 to 2.8" in (tmp_path / "report.html").read_text()


def test_heavy_candidates_are_tested_by_fits_without_them() -> None:
    drawn, candidates = aggregate(3), Candidates.from_strings(VALUES)
    plain = decode(drawn, candidates, DecodeOptions(correction="bonferroni")).candidates
    middle = int(np.argsort(plain.p_value)[len(VALUES) // 2])
    heavy = Weights({VALUES[middle]: 1e6}, 1.0)
    result = decode(drawn, candidates, DecodeOptions(correction="bonferroni", weights=heavy))
    assert result.candidates.p_adjusted[middle] == pytest.approx(
        min(result.candidates.p_value[middle] * (1e6 + 59) / 1e6, 1)
    )


def test_a_rule_without_a_level_takes_none() -> None:
    for rule in ("fdr-eb", "none"):
        with pytest.raises(DecodeError, match=f"{rule}.*takes no weights.*{WEIGHTED[0]}"):
            DecodeOptions(correction=rule, weights=Weights({}, 1.0))


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf"), 1e10])
def test_what_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(CandidatesError, match="the weight of 'a' is"):
        Weights({"a": weight})
    with pytest.raises(CandidatesError, match="the weight of the others is"):
        Weights({}, weight)


def test_groups_take_their_heaviest_weight() -> None:
    with pytest.raises(CandidatesError, match=r"candidate 'b' has no weight.*`,1`"):
        Weights({"a": 1.0}).among([b"a", b"b"], np.array([0, 1]))
    found = Weights({"a": 1.0, "b": 4.0}, 2.0).among([b"a", b"b", b"c"], np.array([0, 0, 2]))
    np.testing.assert_allclose(found, [4 / 3, 2 / 3])


def test_files_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "weights.csv"
    path.write_text("value,weight\nüber,3\n,0.5\n", encoding="utf-8")
    read = read_weights(path)
    assert (dict(read.of), read.others) == ({"über": 3.0}, 0.5)
    for text, why in (
        ("a,b\nc,d\n", "line 1, column 2: 'b' is not a number"),
        ("a,1\na,2\n", "'a' is repeated"),
        ("a,0\n", "the weight of 'a' is 0.0"),
        ("a,1,2\n", "not a value and its weight"),
    ):
        path.write_text(text)
        with pytest.raises(CandidatesError, match=why):
            read_weights(path)


def test_weights_have_one_text_and_digest(tmp_path: Path) -> None:
    """So `sha256sum` of the file that is kept is the digest in manifest.json."""
    awkward = {'"quoted", and =1': 0.1, "b": 2.0, "a" * 100_000: 3.0, "\u00e9": 1e-9}
    for others in (None, 1.0):
        weights = Weights(awkward, others)
        path = tmp_path / "weights.csv"
        path.write_text(weights.to_csv(), encoding="utf-8", newline="")
        assert sha256(path.read_bytes()).hexdigest() == weights.digest
        assert read_weights(path) == weights
        assert read_weights(path).to_csv() == weights.to_csv()
    assert Weights(dict(reversed(awkward.items())), 1.0).digest == weights.digest
    assert Weights(awkward).digest != weights.digest
