"""Files of a release: formats agree, verification finds every change, hostile texts do nothing."""

import csv
import json
import os
import stat
import sys
from dataclasses import asdict, replace
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from pyarrow import parquet

from disclosure.errors import ReleaseError, VerificationError
from disclosure.release import (
    Release,
    RollUp,
    build_release,
    check_latest,
    key_id,
    load_private_key,
    load_public_key,
    make_keys,
    read_release,
    sign_manifest,
    verify_release,
    write_release,
)
from disclosure.release.files import release_from_json, release_to_plain
from tests.disclosure.release.support import ISSUED, policy, table

Keys = tuple[Path, Path]
HOSTILE = {
    **dict.fromkeys(["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "'quoted"], 0.1),
    **dict.fromkeys(["<script>alert(1)</script>", "\u202egnp.exe", 'a,"b"\nc', "\x1b[2J"], 0.1),
    "": 0.05,
}


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    private, public, _ = make_keys(tmp_path / "keys")
    return private, public


@pytest.fixture
def folder(tmp_path: Path, keys: Keys) -> Path:
    private = load_private_key(keys[0])
    made = build_release([table(HOSTILE), table({"a": 0.5, "b": 0.001}, metric="two")],
                         policy(), ISSUED)  # fmt: skip
    out = tmp_path / "release"
    write_release(
        made, out, lambda text: sign_manifest(private, text), key_id(private.public_key())
    )
    return out


def test_csv_parquet_and_json_say_the_same(folder: Path) -> None:
    with (folder / "release.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    columns = parquet.read_table(folder / "release.parquet")
    package = json.loads((folder / "datapackage.json").read_text())
    fields = [one["name"] for one in package["resources"][0]["schema"]["fields"]]
    assert fields == list(rows[0]) == columns.column_names
    exact = [text for one in read_release(folder).tables for text in one.cells]
    assert columns["value"].to_pylist() == exact == [*HOSTILE, "a", "b"]
    shares = [float(row["estimate"]) if row["estimate"] else None for row in rows]
    assert shares == columns["estimate"].to_pylist() == [0.1] * 10 + [0.05, 0.5, None]
    assert rows[-1]["symbol"] == "u"
    assert "u" in package["symbols"]


def test_without_pyarrow_there_is_no_parquet(tmp_path, monkeypatch) -> None:
    """The extra `publication` does not install it."""
    made = build_release([table({"a": 0.5})], policy(), ISSUED)
    for name in [one for one in sys.modules if one.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("disclosure.release.files.find_spec", lambda _: None)
    files = write_release(made, tmp_path / "out")
    assert "release.csv" in files
    assert "release.parquet" not in files


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    rules = policy(total=True, first_day=ISSUED.replace(month=1), reports_rounding=7)
    made = build_release([table(HOSTILE, strata=(("region", "x"),)),
                          table({}, metric="none"),
                          table({"a": 0.5}, metric="few", num_reports=3)],
                         rules, ISSUED)  # fmt: skip
    write_release(made, tmp_path / "out")
    back = read_release(tmp_path / "out")
    for one, other in zip(back.tables, made.tables, strict=True):
        np.testing.assert_equal(asdict(one), asdict(other))
    assert back.policy.to_dict() == made.policy.to_dict()
    assert (back.issued, back.notes) == (made.issued, made.notes)
    assert back.digest == sha256((tmp_path / "out/manifest.json").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("changes", "result"),
    [
        ({"estimate": [{}]}, "estimate = [{}]: a list of numbers and nulls is needed"),
        ({"estimate": 5}, "estimate = 5: a list of numbers"),
        ({"low": [[1.0]]}, "low = [[1.0]]: a list of numbers"),
        ({"strata": 5}, "strata = 5: Input should be a valid array"),
        ({"strata": {"a": 1}}, "strata.0.1 = 1: Input should be a valid string"),
        ({"kinds": []}, "its columns have different lengths"),
        ({"held": {"a": "b"}}, "held.a = 'b': Input should be a valid integer"),
    ],
)
def test_hostile_tables_are_refused_by_name(changes: dict[str, object], result: str) -> None:
    made = build_release([table({"a": 0.5})], policy(), ISSUED)
    plain = release_to_plain(made)
    (one,) = plain["tables"]
    with pytest.raises(ReleaseError) as refused:
        release_from_json(json.dumps(plain | {"tables": [one | changes]}).encode())
    assert result in str(refused.value)


def test_the_same_release_gives_the_same_bytes(tmp_path: Path) -> None:
    made = build_release([table(HOSTILE)], policy(), ISSUED)
    for name in ("one", "two"):
        write_release(made, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_no_text_is_formula_bidi_or_markup(folder: Path) -> None:
    text = (folder / "release.csv").read_text(encoding="utf-8")
    with (folder / "release.csv").open(newline="", encoding="utf-8") as lines:
        values = [row["value"] for row in csv.DictReader(lines)]
    assert values[:6] == ["'=HYPERLINK(1)", "+1", "-1", "'@SUM(A1)", "'\\t=1", "''quoted"]
    for name in ("release.csv", "index.html", "release.json", "manifest.json"):
        found = (folder / name).read_text(encoding="utf-8")
        assert "\u202e" not in found
        assert "\x1b" not in found
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\\u202egnp" in page
    assert "\r" not in text


def test_a_release_is_never_written_over(folder: Path) -> None:
    with pytest.raises(ReleaseError, match="never overwritten"):
        write_release(build_release([], policy(), ISSUED), folder)
    assert not list(folder.parent.glob(".*.part"))


@pytest.mark.parametrize("name", ["release.csv", "release.json", "index.html", "release.parquet",
                                  "datapackage.json"])  # fmt: skip
def test_an_edited_file_is_found(name: str, folder: Path, keys: Keys) -> None:
    path = folder / name
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with pytest.raises(VerificationError, match=f"{name} was changed"):
        verify_release(folder, [load_public_key(keys[1])])


def test_lost_added_or_linked_files_are_found(folder: Path, keys: Keys, tmp_path: Path) -> None:
    public = [load_public_key(keys[1])]
    (folder / "note.txt").write_text("x")
    with pytest.raises(VerificationError, match=r"'note\.txt', which is not signed"):
        verify_release(folder, public)
    (folder / "note.txt").unlink()
    (folder / "release.csv").rename(tmp_path / "elsewhere.csv")
    with pytest.raises(VerificationError, match="missing"):
        verify_release(folder, public)
    (folder / "release.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(VerificationError, match="not a plain file"):
        verify_release(folder, public)


def test_one_of_several_keys_suffices(folder: Path, keys: Keys, tmp_path: Path) -> None:
    new = load_public_key(make_keys(tmp_path / "new")[1])
    assert verify_release(folder, [new, load_public_key(keys[1])]).signed
    with pytest.raises(VerificationError, match="not signed by any of the given keys"):
        verify_release(folder, [new])


def test_earlier_releases_come_with_all_before_them(tmp_path: Path) -> None:
    built: list[Release] = []
    for number, metric in enumerate("abc"):
        made = build_release([table({"x": 0.5}, metric=metric)], policy(), ISSUED, earlier=built)
        write_release(made, tmp_path / str(number))
        built.append(read_release(tmp_path / str(number)))
    assert built[2].earlier == (built[0].digest, built[1].digest)
    gap = [built[0], built[2]]
    with pytest.raises(ReleaseError, match=f"manifest {built[1].digest[:16]}.*pass all"):
        build_release([table({"x": 0.5}, metric="d")], policy(), ISSUED, earlier=gap)


def test_replayed_releases_are_known(tmp_path: Path) -> None:
    first = build_release([table({"x": 0.5})], policy(), ISSUED)
    write_release(first, tmp_path / "1")
    before = [read_release(tmp_path / "1")]
    second = build_release([table({"x": 0.5}, metric="two")], policy(), ISSUED, earlier=before)
    write_release(second, tmp_path / "2")
    memory = tmp_path / "seen.json"
    for number in "1122":
        check_latest(verify_release(tmp_path / number, []), memory)
    with pytest.raises(VerificationError, match="outdated: the release of 2026-12-01, which you"):
        check_latest(verify_release(tmp_path / "1", []), memory)
    memory.write_text("[]")
    with pytest.raises(ReleaseError, match=r"seen\.json is not what"):
        check_latest(verify_release(tmp_path / "1", []), memory)


def test_an_edited_manifest_needs_the_key(folder: Path, keys: Keys) -> None:
    """Whoever changes a file and its digest passes the digests, and not the signature."""
    path = folder / "release.csv"
    path.write_text(path.read_text().replace("0.05", "0.06"))
    made = json.loads((folder / "manifest.json").read_text())
    result = {"bytes": path.stat().st_size, "sha256": sha256(path.read_bytes()).hexdigest()}
    made["files"]["release.csv"] = result
    (folder / "manifest.json").write_text(json.dumps(made))
    verify_release(folder, [])
    with pytest.raises(VerificationError, match="not signed by any"):
        verify_release(folder, [load_public_key(keys[1])])


@pytest.mark.parametrize("signature", [b"", b"!!!", b"AAAA", b"\xff" * 88])
def test_a_broken_or_foreign_signature_is_refused(signature, folder, keys, tmp_path) -> None:
    with pytest.raises(VerificationError, match="not signed by any"):
        verify_release(folder, [load_public_key(make_keys(tmp_path / "other")[1])])
    (folder / "manifest.sig").write_bytes(signature)
    with pytest.raises(VerificationError, match="not signed by any"):
        verify_release(folder, [load_public_key(keys[1])])
    (folder / "manifest.sig").unlink()
    with pytest.raises(VerificationError, match="not signed"):
        verify_release(folder, [load_public_key(keys[1])])


@pytest.mark.parametrize(
    "name", ["../release.csv", "/etc/passwd", "a/b.csv", "..", ".hidden", "", "manifest.json",
             "C:\\x.csv", "release.csv\n"]
)  # fmt: skip
def test_signed_manifests_name_no_file_elsewhere(name: str, folder: Path, keys: Keys) -> None:
    made = json.loads((folder / "manifest.json").read_text())
    made["files"][name] = made["files"]["release.csv"]
    text = json.dumps(made).encode()
    (folder / "manifest.json").write_bytes(text)
    (folder / "manifest.sig").write_bytes(sign_manifest(load_private_key(keys[0]), text))
    with pytest.raises(VerificationError, match="not the name of a file"):
        verify_release(folder, [load_public_key(keys[1])])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "rappor-release"}', "{" * 99999,
                                  '{"format": 1, "format": 2}'])  # fmt: skip
def test_what_is_no_manifest_is_refused(text: str, folder: Path) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(VerificationError):
        verify_release(folder, [])
    (folder / "manifest.json").unlink()
    with pytest.raises(ReleaseError, match="no such file"):
        verify_release(folder, [])


def test_full_disks_leave_no_half_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(Path, "chmod", Mock(side_effect=OSError(ENOSPC, "No space left on device")))
        with pytest.raises(ReleaseError, match="no space left"):
            make_keys(tmp_path / "keys")
    assert not list((tmp_path / "keys").iterdir())
    assert make_keys(tmp_path / "keys")[0].stat().st_size


def test_a_private_key_is_for_its_owner_only(keys: Keys, tmp_path: Path) -> None:
    private, public = keys
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert make_keys(tmp_path / "new" / "keys")[0].parent.stat().st_mode & 0o077 == 0
    secret = private.read_text().splitlines()[1]
    with pytest.raises(ReleaseError, match="never overwritten"):
        make_keys(private.parent)
    private.chmod(0o640)
    with pytest.raises(ReleaseError, match="others may read") as refused:
        load_private_key(private)
    assert secret not in str(refused.value)
    with pytest.raises(ReleaseError, match="not a private key; `rappor release keygen` makes one"):
        load_private_key(public)
    broken = tmp_path / "broken.pem"
    broken.write_text(private.read_text().replace("BEGIN", "BEGUN"))
    broken.chmod(0o600)
    with pytest.raises(ReleaseError, match="not a private key") as refused:
        load_private_key(broken)
    assert secret not in str(refused.value)
    assert refused.value.__cause__ is None
    public.chmod(0o600)
    with pytest.raises(ReleaseError, match="not a private key"):
        load_private_key(public)


def test_a_umask_that_hides_nothing_does_not_matter(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        private = make_keys(tmp_path)[0]
    finally:
        os.umask(before)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_merged_cells_are_drawn_as_one(tmp_path: Path) -> None:
    """Two squares side by side, one below: a ring of their outline without the edges in it."""

    def square(x: int, y: int) -> dict[str, object]:
        ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
        return {"type": "Polygon", "coordinates": [ring]}

    cells = {"120": 0.02, "121": 0.02, "122": 0.02, "123": 0.5}
    given = table(cells, error=0.008, shapes={c: square(i % 2, i // 2)
                                              for i, c in enumerate(cells)})  # fmt: skip
    given = replace(given, detected=given.estimate > 0.1)
    rules = policy(roll_up={"places": RollUp(tree="cells", alpha=0.05)})
    made = build_release([given], rules, ISSUED)
    assert made.tables[0].cells == ("123", "12")
    assert made.tables[0].kinds == ("cell", "merged")
    write_release(made, tmp_path / "out")
    features = json.loads((tmp_path / "out/release.geojson").read_text())["features"]
    merged = features[1]
    assert merged["properties"]["members"] == ["120", "121", "122"]
    (polygon,) = merged["geometry"]["coordinates"]
    assert len(polygon) == 1
    corners = {tuple(point) for point in polygon[0]}
    assert corners >= {(0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (1.0, 1.0), (1.0, 2.0), (0.0, 2.0)}
    assert len(polygon[0]) == 9  # eight unit edges
