"""Check that docstrings of the public API describe arguments: `python docs/tools/docstrings.py`.

The public API is what `__all__` of `PACKAGES` names, with the methods of its classes. Exit code 1
where a function of two parameters or more has no `Args:`.
"""

import importlib
import inspect
import sys
from collections.abc import Iterator

PACKAGES = ("client_sdk", "rappor_core", "collector", "decoder")


def functions(name: str, member: object) -> Iterator[tuple[str, object, int]]:
    """List a public function, or the methods of a public class, with their numbers of parameters.

    Args:
        name: Qualified name of the member.
        member: A function or a class; anything else has none.

    Yields:
        Name, function and parameters, `self` and `cls` not counted.
    """
    if inspect.isclass(member):
        fields = inspect.get_annotations(member)
        for key, method in vars(member).items():
            bound, bare = getattr(member, key), isinstance(method, classmethod | staticmethod)
            public = not key.startswith("_") and key not in fields
            if public and (bare or inspect.isfunction(method)):
                own = not bare
                yield f"{name}.{key}", bound, len(inspect.signature(bound).parameters) - own
    elif callable(member):
        yield name, member, len(inspect.signature(member).parameters)


def main() -> None:
    """Print the functions without `Args:`, and how many have it."""
    public = [
        each
        for package in map(importlib.import_module, PACKAGES)
        for name in package.__all__
        for each in functions(f"{package.__name__}.{name}", getattr(package, name))
    ]
    several = [(name, function) for name, function, count in public if count >= 2]
    missing = [
        name for name, function in several if "Args:" not in (inspect.getdoc(function) or "")
    ]
    for name in missing:
        print(f"{name}: its docstring has no Args:")
    print(f"{len(several) - len(missing)} of {len(several)} public functions have Args:")
    sys.exit(bool(missing))


main()
