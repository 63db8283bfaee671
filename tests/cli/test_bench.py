"""The form of a benchmark, of its line and of the page, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rappor_cli import bench
from rappor_cli.bench_records import BenchMachine, Comparison, Page, Part, line
from rappor_cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
MACHINE = BenchMachine("a processor", 2, "8 GiB", "Linux 6", "3.11", {"numpy": "2"})


def test_the_page_is_what_the_command_writes() -> None:
    page = Page.from_json(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
    assert page.markdown() == PAGE.read_text(encoding="utf-8")
    assert {"density", "encode", "location"} <= {part.name for part in page.parts}
    assert [part.name for part in page.parts] == list(bench.in_form())
    for part in page.parts:
        assert {one.part for one in part.comparisons} == {part.name}


def test_ratios_above_one_are_better_for_us() -> None:
    slower = Comparison("p", "n", "s", (1.0, 2.0, 4.0), "other", (4.0, 4.0, 4.0), target=3.0)
    assert slower.ratio is not None
    assert slower.ratio == (1.5, 2.0, 3.0)
    assert slower.reached is False
    assert "2.00 (1.50 to 3.00) times as good (target: 3.00, missed)" in line(slower)
    rate = Comparison("p", "n", "/s", (8.0,), "other", (4.0, 2.0, 1.0), more=True, target=4.0)
    assert rate.ratio == (4.0, 4.0, 4.0)
    assert rate.reached is True


def test_targets_without_a_rival_are_of_the_figure() -> None:
    assert Comparison("p", "n", "s", (2.0,), target=3.0).reached is True
    assert Comparison("p", "n", "s", (4.0,), target=3.0).reached is False
    assert Comparison("p", "n", "s", target=3.0, note="not run: no data").reached is None
    assert Comparison("p", "n", "MB", (0.0,), "other", (1.0,)).ratio is None


def test_pages_go_through_json_and_are_escaped() -> None:
    row = Comparison("part", "a|b", "ms", (1234.5, 1.0), "r", (2.0, 3.0), note="told")
    rows = (row, Comparison("part", "c", note="not run: why"))
    page = Page(MACHINE, (Part("part", "rappor bench part", "2026-11-22", "1.0", rows),))
    assert Page.from_json(page.to_json()) == page
    text = page.markdown()
    assert "| a\\|b | 618 ms (1.00 to 1,234) | r: 2.50 ms (2.00 to 3.00) |" in text
    assert "\n## part\n\n`rappor bench part`, 2026-11-22, load average 1.0.\n" in text
    assert "a processor, 2 cores" in text


def test_parts_that_are_run_again_replace_their_lines() -> None:
    first = [Part(name, "c", "d", "1", (Comparison(name, "n"),)) for name in ("a", "b")]
    page = Page(MACHINE, ()).with_parts(MACHINE, first)
    again = Part("a", "c", "later", "2", ())
    assert page.with_parts(MACHINE, [again]).parts == (again, first[1])


def test_a_wheel_says_where_the_benchmarks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
    assert main(["bench"]) == 1
    told = capsys.readouterr().err
    assert "pip download" in told
    assert "rappor-telemetry==" in told


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    assert "'nothing' is not one of anonymity" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_every_benchmark_compiles(path: Path) -> None:
    compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_the_command_runs_scripts_with_their_options() -> None:
    forms = bench.in_form()
    assert set(forms) >= {"archive", "client", "collect", "decode", "density", "encode", "location"}
    for name, path in forms.items():
        assert "run(__doc__, measure" in path.read_text(encoding="utf-8"), name


@pytest.mark.slow
def test_a_benchmark_runs_and_its_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    words = [sys.executable, "-m", "rappor_cli", "bench", "encode", "--small"]
    subprocess.run([*words, "--markdown", str(page)], check=True, cwd=ROOT, timeout=120)
    run = Page.from_json(page.with_suffix(".json").read_text())
    assert run.markdown() == page.read_text()
    (part,) = run.parts
    assert len(part.comparisons) == 4
    assert all(one.ratio is not None and one.ratio.middle > 1 for one in part.comparisons)


@pytest.mark.parametrize("place", ["missing/page.md", "."])
def test_unwritable_pages_are_refused_before_any_benchmark(
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bench, "_run", lambda *_: pytest.fail("a benchmark was run"))
    assert main(["bench", "density", "--markdown", str(tmp_path / place)]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_failing_benchmarks_keep_the_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("kept")
    monkeypatch.setattr(bench, "_write", lambda *_: None)
    monkeypatch.setattr(bench, "_run", lambda *_: ([], False))
    assert main(["bench", "density", "--markdown", str(page)]) == 1
    assert page.read_text() == "kept"
    assert not page.with_suffix(".json").exists()
