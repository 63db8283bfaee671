"""`rappor metrics train-code` prints a table that a metric file takes."""

import gzip
from pathlib import Path

import pytest

from rappor_core.codes.prefix_code import packaged_code, read_code
from tests.cli.command import Rappor
from tests.discovery_support import site_metric, site_names

DOMAINS = Path(__file__).parents[2] / ".." / "shared" / "data" / "domains_random10k.txt.gz"


def test_a_trained_table_stands_in_a_metric_file(tmp_path: Path, rappor: Rappor) -> None:
    listed = tmp_path / "names.txt.gz"
    listed.write_bytes(gzip.compress("\n".join(site_names(400)).encode()))
    rappor("metrics", "train-code", listed, "--name", "places", "--order", "1")
    assert "of 40 strings left out of a training: median" in rappor.err
    assert site_metric(4.0, rappor.out).details.code.name == "places"
    table = tmp_path / "places.json"
    rappor("metrics", "train-code", listed, "--keep-case", "-o", table)
    code = read_code(table.read_text().strip())
    assert (code.order, code.lower_case) == (2, False)
    assert code.digest in rappor.out


def test_what_is_no_list_is_refused(tmp_path: Path, rappor: Rappor) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "names.gz").write_bytes(b"no gzip")
    for name, message in (
        ("empty.txt", "the list has none"),
        ("latin.txt", "not UTF-8 text"),
        ("names.gz", "not UTF-8 text, or it is damaged"),
        ("none.txt", "No such file"),
    ):
        assert message in rappor.refused("metrics", "train-code", tmp_path / name)


def test_the_packaged_table_is_of_its_list(tmp_path: Path, rappor: Rappor) -> None:
    if not DOMAINS.exists():
        pytest.skip("needs ../shared/data/domains_random10k.txt.gz")
    table = tmp_path / "domains.json"
    arguments = ["--name", "domains", "--min-occurrences", "50", "-o", str(table)]
    assert packaged_code("domains").digest in rappor("metrics", "train-code", DOMAINS, *arguments)
