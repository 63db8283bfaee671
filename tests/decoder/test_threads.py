"""The same bytes whatever the number of threads, each in a fresh process."""

import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest

from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor

WORDS = [f"word{i}" for i in range(700)]
FILES = ("results.csv", "candidates.csv", "results.json", "report.html")


@pytest.fixture
def inputs(tmp_path):
    params = rappor(32, 2, 32, 0.25, 0.25, 0.75)
    shares = np.repeat([0.05, 0.0], [20, 680])
    rng = np.random.default_rng(3)
    aggregate, _ = draw_aggregate(WORDS, shares, 100_000, params, rng, metric="page")
    (tmp_path / "page.json").write_text(aggregate.to_json())
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    return tmp_path


def digests(inputs, method, threads):
    """SHA-256 of the files of a decode whose libraries may use so many threads."""
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    source = ["--aggregate", inputs / "page.json", "--candidates", inputs / "words.txt"]
    out = inputs / f"{method}-{threads}"
    command = [sys.executable, "-m", "rappor_cli", "decode", *source, "--method", method, "-o", out]
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    subprocess.run(list(map(str, command)), env=environment, check=True, capture_output=True)
    return {name: sha256((out / name).read_bytes()).hexdigest() for name in FILES}


METHODS = ("cavity", "lasso")


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_files_do_not_depend_on_threads(inputs, method):
    assert digests(inputs, method, 1) == digests(inputs, method, 2)
