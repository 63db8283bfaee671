"""Cached candidate maps: the same numbers, one file for each question, no trust in the disk."""

from dataclasses import replace

import numpy as np
import pytest

from decoder import Candidates, decode
from decoder.candidates.cache import SMALLEST, cache_key, cached_positions
from decoder.errors import CacheError
from decoder.output.decoding_files import write_outputs


@pytest.fixture
def long_list(params, values):
    """Just long enough to be kept: 64 entries a candidate."""
    wrong = [f"wrong-{i}" for i in range(SMALLEST // 64 - len(values))]
    return Candidates.from_strings(values + wrong)


def only_file(folder):
    (path,) = folder.iterdir()
    return path


def test_the_output_is_the_same_to_the_last_bit(tmp_path, make_aggregate, long_list, params):
    aggregate, folder = make_aggregate(), tmp_path / "new" / "cache"
    made, _ = cached_positions(long_list, params, folder)
    read, note = cached_positions(long_list, params, folder)
    assert note is None
    assert read.tensor is not made.tensor
    written = [
        write_outputs(decode(aggregate, one), tmp_path / name)
        for name, one in (("plain", long_list), ("made", made), ("read", read))
    ]
    for plain, *others in zip(*written, strict=True):
        assert all(other.read_bytes() == plain.read_bytes() for other in others), plain.name


def test_a_kept_file_is_read_not_made_again(tmp_path, long_list, params):
    """A file that is whole is believed: a marked one comes back with its mark."""
    cached_positions(long_list, params, tmp_path)
    path = only_file(tmp_path)
    marked = np.load(path)
    marked[0] = 0
    np.save(path, marked)
    again, note = cached_positions(long_list, params, tmp_path)
    assert note is None
    assert np.array_equal(again.tensor, marked)


def cut(content):
    return content[:-1]


def longer(content):
    return content + b"\0"


def other_type(content):
    return content.replace(b"|u1", b"|i1", 1)


def other_shape(content):
    return content.replace(b"32, 2)", b"2, 32)", 1)


def above(content):
    return content[:-1] + bytes([33])


@pytest.mark.parametrize(
    "damage",
    [cut, longer, other_type, other_shape, above, lambda _: b"", lambda _: b"PK\3\4 no zip"],
)
def test_a_damaged_file_is_made_again(tmp_path, long_list, params, damage):
    cached_positions(long_list, params, tmp_path)
    path = only_file(tmp_path)
    whole = path.read_bytes()
    assert damage(whole) != whole
    path.write_bytes(damage(whole))
    known, note = cached_positions(long_list, params, tmp_path)
    assert np.array_equal(known.tensor, long_list.positions(params))
    assert path.name in note
    assert only_file(tmp_path).read_bytes() == whole


def test_the_largest_position_is_not_damage(tmp_path, long_list, params):
    """The sentinel k of a repeated bit is a position like the others."""
    known, _ = cached_positions(long_list, params, tmp_path)
    assert known.tensor.max() == params.num_bits
    assert cached_positions(long_list, params, tmp_path)[1] is None


def test_everything_that_positions_depend_on_is_in_the_key(params):
    lists = [["ab", "c"], ["a", "bc"], ["c", "ab"], ["ab"], ["abc"]]
    changed = [{"num_bits": 31}, {"num_hashes": 3}, {"num_cohorts": 33}, {"hash": "md5"}]
    changed.append({"num_hashes": params.num_cohorts, "num_cohorts": params.num_hashes})
    keys = [cache_key(Candidates.from_strings(one), params) for one in lists]
    first = Candidates.from_strings(lists[0])
    keys += [cache_key(first, params.replace(**change)) for change in changed]
    assert len(set(keys)) == len(lists) + len(changed)
    noisier = params.replace(mechanism=params.mechanism.replace(p2=params.mechanism.p2 - 1))
    assert cache_key(first, noisier) == keys[0], "the noise moves no bit"


def test_other_questions_get_other_files(tmp_path, long_list, params):
    cached_positions(long_list, params, tmp_path)
    cached_positions(long_list, params.replace(hash="md5"), tmp_path)
    cached_positions(replace(long_list, values=long_list.values[::-1]), params, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_what_is_not_worth_a_file_is_left_alone(tmp_path, long_list, params):
    short = Candidates(long_list.values[1:])
    mapped = replace(long_list, tensor=long_list.positions(params))
    boolean = params.replace(encoding="boolean", num_bits=1, num_hashes=1, num_cohorts=1 << 15)
    cases = ((short, params), (mapped, params), (Candidates([b"true", b"false"]), boolean))
    for candidates, own in cases:
        assert cached_positions(candidates, own, tmp_path) == (candidates, None)
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_nothing_behind(tmp_path, long_list, params, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("decoder.candidates.cache.os.fsync", full)
    with pytest.raises(CacheError, match=r"cannot be written: no space left on device; give"):
        cached_positions(long_list, params, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file_is_refused(tmp_path, long_list, params):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        CacheError, match=r"file' cannot be written: it is a file, not a folder; give a folder"
    ):
        cached_positions(long_list, params, tmp_path / "file")
