"""`-o` never replaces what somebody else wrote; lists may be JSON; messages are plain text."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from decoder import Candidates
from decoder.errors import CandidatesError
from metric_design.review import check_metrics
from rappor_cli.main import main
from rappor_core.errors import MetricsFileError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.file import parse_metrics
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

STRING = """
[metrics.page]
kind = "string"
description = "Pages"
owner = "web@example.org"
expires = 2099-12-31
num_bits = 32
num_hashes = 2
num_cohorts = 4
max_memoized_values = 3
fallback = "other"
"""
PLACE = """
[metrics.place]
kind = "location"
description = "Places"
owner = "web@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [42.0, -72.8, 42.5, -72.4]
levels = [13]
mode = "memo"
encoding = "symbol"
num_symbols = 2
num_cohorts = 4
"""
FILTER = "num_bits = 8\nnum_hashes = 2\nnum_cohorts = 4"
NOTHING = """
[metrics.other]
kind = "{kind}"
description = "Words"
owner = "web@example.org"
expires = 2099-12-31
max_memoized_values = 2
epsilon_infinity = 2.0
epsilon_one = 1e-300
{shape}
"""
EPSILONS = "epsilon_infinity = 2.0\nepsilon_one = 1.0\n"


@pytest.fixture
def decoding(tmp_path: Path) -> list[str]:
    params = RapporParams(32, 2, 4, TwoRoundMechanism.rappor(0.5, 0.4, 0.6))
    drawn, _ = draw_aggregate(["a", "b"], np.array([0.6, 0.4]), 20_000, params,
                              np.random.default_rng(1))  # fmt: skip
    (tmp_path / "a.json").write_text(drawn.to_json())
    (tmp_path / "list.json").write_text('["a", "b", "c"]')
    return ["decode", "--aggregate", str(tmp_path / "a.json"),
            "--candidates", str(tmp_path / "list.json")]  # fmt: skip


def test_a_decoding_replaces_its_own_folder_alone(
    decoding: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, mine, other = tmp_path / "ours", tmp_path / "mine", tmp_path / "other"
    for _ in range(2):
        assert main([*decoding, "-o", str(ours)]) == 0
    mine.mkdir()
    (mine / "report.html").write_text("of mine")
    assert main([*decoding, "-o", str(mine)]) == 1
    said = capsys.readouterr().err
    assert "holds 'report.html', and no results.json of this command" in said
    assert [path.name for path in mine.iterdir()] == ["report.html"]
    assert (mine / "report.html").read_text() == "of mine"
    (mine / "results.json").write_text("[1]")
    assert main([*decoding, "-o", str(mine)]) == 1
    other.mkdir()
    (other / "notes.txt").write_text("kept")
    assert main([*decoding, "-o", str(other)]) == 0
    assert (other / "notes.txt").read_text() == "kept"


@pytest.mark.long
def test_a_plan_replaces_its_own_folder_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["plan", "--share", "0.01", "--devices", "100000", "-o"]
    ours, mine = tmp_path / "ours", tmp_path / "mine"
    mine.mkdir()
    (mine / "metrics.toml").write_text("# by hand")
    assert main([*command, str(mine)]) == 1
    assert "holds 'metrics.toml', and no plan.json" in capsys.readouterr().err
    assert (mine / "metrics.toml").read_text() == "# by hand"
    for _ in range(2):
        assert main([*command, str(ours)]) == 0


def test_an_aggregate_replaces_no_file_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("of mine")
    command = ["aggregate", "page", "--collector", "http://127.0.0.1:9", "-o", str(mine)]
    assert main(command) == 1
    assert "is there and no aggregate, so it is not replaced" in capsys.readouterr().err
    assert mine.read_text() == "of mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON, although its name says so"),
        ('{"a": 1}', r"not a list of strings, such as \[\"a\", \"b\"\]"),
        ('["a", 2]', "not a list of strings"),
    ],
)
def test_json_lists_are_read_or_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "list.json"
    path.write_text('["a", "b\\u00e9", "a"]')
    assert Candidates.from_file(path).values == [b"a", "bé".encode()]
    path.write_text(text)
    with pytest.raises(CandidatesError, match=why):
        Candidates.from_file(path)
    path.write_text("[]")
    with pytest.raises(CandidatesError, match="no candidates"):
        Candidates.from_file(path)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (PLACE + "epsilon_infinity = 2.0\nepsilon_one = 1e-300\n", "epsilon_one = 1e-300"),
        (
            PLACE.replace(
                'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2',
                'mode = "once"\nnum_bits = 32',
            )
            + "epsilon = 1e-300\n",
            "epsilon = 1e-300",
        ),
        (NOTHING.format(kind="string", shape=FILTER), "epsilon_one = 1e-300"),
        (NOTHING.format(kind="boolean", shape=""), "epsilon_one = 1e-300"),
        (NOTHING.format(kind="category", shape='categories = ["a", "b"]'), "epsilon_one = 1e-300"),
    ],
)
def test_epsilons_that_keep_nothing_are_named(text: str, key: str) -> None:
    with pytest.raises(MetricsFileError, match=f"{key} keeps nothing; use a larger one"):
        parse_metrics(text)


def test_probabilities_that_keep_nothing_are_no_epsilon() -> None:
    probabilities = "prob_f = 0.5\nprob_p = 0.5\nprob_q = 0.5\n"
    place = PLACE.replace('"symbol"\nnum_symbols = 2', '"bloom"\nnum_bits = 8')
    with pytest.raises(MetricsFileError, match=r"p = q = 0\.5; choose q different from p"):
        parse_metrics(f"{place}max_memoized_values = 3\n{probabilities}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLACE.replace("[42.0", "[43.0"), r"box: \[43.0, -72.8, 42.5, -72.4\] is empty"),
        (PLACE.replace('"memo"', '"never"'), "mode = 'never' is not one of memo, window, once"),
    ],
)
def test_values_stand_in_messages_as_they_were_written(text: str, said: str) -> None:
    with pytest.raises(MetricsFileError, match=said):
        parse_metrics(text + EPSILONS)


def test_check_refuses_control_characters_and_empty_fallbacks() -> None:
    def found(text: str) -> list[tuple[str, str]]:
        findings = check_metrics(parse_metrics(text + EPSILONS), today=date(2026, 1, 1))
        return [(one.level, one.message) for one in findings if one.metric == "page"]

    assert found(STRING) == []
    assert found(STRING.replace('"Pages"', '"""Pages\n\tof a site"""')) == []
    ((level, message),) = found(STRING.replace("Pages", "Pa\\u0007ges\\u202e"))
    assert level == "error"
    assert r"description = 'Pa\x07ges\u202e' holds a control character" in message
    ((level, message),) = found(STRING.replace('"other"', '""'))
    assert (level, message.startswith("fallback = '' is a value without a name")) == ("error", True)
