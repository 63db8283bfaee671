"""The list of mutations fits the tree: `python -m tests.mutations` breaks what it says."""

from pathlib import Path

import pytest

from tests.mutations.catalogue import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_fits_code_and_tests(mutation: Mutation) -> None:
    before = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert before.count(mutation.old) == 1
    compile(mutation.applied(before), mutation.file, "exec")
    assert all((ROOT / test.partition("::")[0]).is_file() for test in mutation.tests)


def test_every_package_has_its_own_mutations() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS) >= 30
    assert {mutation.file.partition("/")[0] for mutation in MUTATIONS} == {
        "rappor_core",
        "rappor_server",
        "client_sdk",
        "collector",
        "decoder",
        "decoder_service",
        "disclosure",
        "metric_design",
        "simulations",
        "privacy_audit",
        "rappor_cli",
    }
