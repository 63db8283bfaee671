"""The command that most tests here run, and what it has written."""

from pathlib import Path

import pytest

from tests.cli.command import Rappor
from tests.cli.release_support import decode_density, decode_two


@pytest.fixture
def rappor(capsys: pytest.CaptureFixture[str]) -> Rappor:
    return Rappor(capsys)


@pytest.fixture(scope="session")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return decode_two(tmp_path_factory.mktemp("decoded"))


@pytest.fixture(scope="session")
def density(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return decode_density(tmp_path_factory.mktemp("density"))
