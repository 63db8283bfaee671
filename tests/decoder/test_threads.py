"""The same bytes whatever the number of threads, each in a fresh process."""

import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode, write_outputs
from decoder.numerics import bit_tensor
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

WORDS = [f"word{i}" for i in range(700)]
FILES = ("results.csv", "candidates.csv", "results.json", "report.html")


@pytest.fixture
def inputs(tmp_path):
    params = RapporParams.rappor(
        num_bits=32, num_hashes=2, num_cohorts=32, prob_f=0.25, prob_p=0.25, prob_q=0.75
    )
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


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_files_do_not_depend_on_divided_sums(inputs, method, monkeypatch):
    """A list so long that scores are summarised and the fit moves among a part of it only."""
    aggregate = Aggregate.from_json((inputs / "page.json").read_text())
    listed = Candidates.from_strings([*WORDS, *map(str, range(30_000))])
    written = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(bit_tensor, "_WORTH_A_THREAD", 0)
        monkeypatch.setattr(bit_tensor.os, "cpu_count", lambda n=threads: n)
        decoding = decode(aggregate, listed, DecodeOptions(method=method))
        assert len(decoding.detected) > 5
        paths = write_outputs(decoding, inputs / f"{method}-divided-{threads}")
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1] == written[2]
