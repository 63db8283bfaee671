"""A cache on disk of candidate maps, the index tensors of long lists: hashed once, read later.

A tensor lies in one .npy file, named by a digest of everything that it depends on: another list,
order, hash family or shape is another file, and nothing has to be invalidated.
"""

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from math import prod
from pathlib import Path

import numpy as np

from decoder.candidates.lists import Candidates
from decoder.errors import CacheError, OutputError
from decoder.files import make_folder, replacing
from decoder.numerics.bit_tensor import Positions, position_type
from decoder.progress import Progress, silent
from rappor_core.params import RapporParams

FORMAT = 2  # raise it when the positions of a value or the layout of the file change
SMALLEST = 1 << 16  # entries M * m * h; fewer are hashed sooner than a file is opened


def cached_positions(
    candidates: Candidates, params: RapporParams, folder: Path, progress: Progress = silent
) -> tuple[Candidates, str | None]:
    """The candidates with their bit positions, read from `folder`, or computed and stored there.

    Short lists, maps, and encodings without a Bloom filter come back as they are. Also returns a
    note where a damaged file was replaced. The folder is made if it is missing; raises CacheError
    if it cannot be written. It holds no reports, but which bits the listed strings set.
    """
    try:
        make_folder(folder)
    except OutputError as error:
        raise _unusable(error) from error
    shape = (len(candidates), params.num_cohorts, params.num_hashes)
    wide = params.scheme.hashed and not params.scheme.symbols and prod(shape) >= SMALLEST
    if not wide or candidates.tensor is not None:
        return candidates, None
    path = folder / f"{cache_key(candidates, params)}.npy"
    present = path.exists()
    tensor = _read(path, shape, params.num_bits) if present else None
    if tensor is not None:
        return replace(candidates, tensor=tensor), None
    tensor = candidates.positions(params, progress)
    _write(path, tensor)
    note = f"The cached candidate map {path} was damaged; it was made again." if present else None
    return replace(candidates, tensor=tensor), note


def cache_key(candidates: Candidates, params: RapporParams) -> str:
    """SHA-256, in hex, of the format, the hash, k, m, h and the values in order, with lengths."""
    shape = f"{params.num_bits} {params.num_cohorts} {params.num_hashes}"
    digest = sha256(f"positions {FORMAT} {params.hash} {shape}\n".encode())
    for value in candidates.values:
        digest.update(len(value).to_bytes(8, "big") + value)
    return digest.hexdigest()


def _read(path: Path, shape: tuple[int, int, int], num_bits: int) -> Positions | None:
    """The tensor (M, m, h) in a file, or None where it is not one of this shape and of 0..k."""
    head = _header(shape, num_bits)
    size = len(head) + prod(shape) * position_type(num_bits).itemsize
    try:
        # Compared, not parsed: a damaged header must not choose how much memory is taken.
        with path.open("rb") as file:
            if file.read(len(head)) != head or os.fstat(file.fileno()).st_size != size:
                return None
            file.seek(0)
            tensor: Positions = np.load(file, allow_pickle=False)
    except (OSError, ValueError):
        return None
    # The compiled sums index by these numbers without a check of their own.
    return tensor if tensor.max() <= num_bits else None


def _header(shape: tuple[int, int, int], num_bits: int) -> bytes:
    """The first bytes that numpy.save writes for a tensor of this shape."""
    file, dtype = BytesIO(), position_type(num_bits)
    described = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)
    return file.getvalue()


def _write(path: Path, tensor: Positions) -> None:
    try:
        with replacing(path) as part:
            _fill(part, tensor)
    except OutputError as error:
        raise _unusable(error) from error


def _fill(path: Path, tensor: Positions) -> None:
    """On the disk before it gets its name: zeros after a power cut would be valid positions."""
    with path.open("wb") as file:
        np.save(file, tensor)
        file.flush()
        os.fsync(file.fileno())


def _unusable(error: OutputError) -> CacheError:
    return CacheError(f"cache {error}, or decode without a cache")
