"""docs/analysis.ipynb runs from its first cell to its last, against a service."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.decoder_service.in_process import working
from tests.decoder_service.support import running

NOTEBOOK = Path(__file__).parents[2] / "docs" / "analysis.ipynb"
ADDRESS = "http://127.0.0.1:8100"


def run_cell(source: str, name: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(source, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), name, "eval"), names)


def code_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.long
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    with running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served:
        monkeypatch.setenv("RAPPOR_DECODER_KEY", served.keys["ana"])
        names: dict[str, Any] = {"__name__": "__main__"}
        shown: list[Any] = []
        kinds = set()
        with working(served, tmp_path):
            for number, source in enumerate(code_cells()):
                text = source.replace(ADDRESS, served.url)
                shown.append(run_cell(text, f"analysis.ipynb, code cell {number}", names))
                kinds.add(type(shown[-1]).__name__)
    assert {"CandidateList", "Job", "DataFrame"} <= kinds
    assert "https://news.example/" in set(names["decoding"].to_frame()["value"])
    assert isinstance(names["cells"], pandas.DataFrame)
    changed = shown[-2]
    assert changed.iloc[0]["string"] == "https://video.example/"
    assert changed.iloc[0]["low"] > 0 > changed.iloc[-1]["difference"]
    assert shown[-1]["held"] > 0
