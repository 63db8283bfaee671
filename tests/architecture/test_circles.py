"""No circle of files: no module imports one that imports it, directly or through others."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "benchmarks", "client_sdk", "collector", "decoder", "decoder_service", "disclosure",
    "metric_design", "privacy_audit", "rappor_cli", "rappor_core", "rappor_server", "simulations",
)  # fmt: skip
# Modules that know each other for the sake of types alone. Only ever take lines from here.
NOT_DONE = (
    "disclosure.release.",
    "rappor_core.",
)


@pytest.fixture(scope="module")
def sources() -> dict[str, ast.Module]:
    """The syntax tree of each module, by its name."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = ast.parse(path.read_text("utf-8"))
    return found


def imports(tree: ast.AST, *, for_types: bool) -> Iterator[tuple[str, str]]:
    """What is imported anywhere in a module, as (module, name or ""); for_types: also what only a
    type checker sees."""
    if isinstance(tree, ast.Import):
        yield from ((alias.name, "") for alias in tree.names)
    elif isinstance(tree, ast.ImportFrom) and tree.module:
        yield from ((tree.module, alias.name) for alias in tree.names)
    children = list(ast.iter_child_nodes(tree))
    if isinstance(tree, ast.If) and isinstance(tree.test, ast.Name) and not for_types:
        children = tree.orelse if tree.test.id == "TYPE_CHECKING" else children
    for child in children:
        if not isinstance(child, ast.expr):
            yield from imports(child, for_types=for_types)


@pytest.mark.long
@pytest.mark.parametrize("for_types", [False, True], ids=["when it runs", "with types"])
def test_no_module_imports_one_that_imports_it(
    sources: dict[str, ast.Module], for_types: bool
) -> None:
    graph: dict[str, set[str]] = {}
    for module, tree in sources.items():
        excused = for_types and module.startswith(NOT_DONE)
        for parent, name in imports(tree, for_types=for_types):
            imported = f"{parent}.{name}" if f"{parent}.{name}" in sources else parent
            if imported in sources and not (excused and imported.startswith(NOT_DONE)):
                graph.setdefault(module, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of files: {' -> '.join(reversed(error.args[1]))}")
