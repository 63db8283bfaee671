"""The device's modules, all in this one file: a zip compresses it far better than eighty files.

Each module is the body of a class in a function that is never called; `bundle.py` wrote it there.
The code of such a body is what the code of a module is: names that it binds are the module's.
"""

import sys
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import ClassVar


class Modules:
    """Finds the modules below by name, and runs them when they are first imported."""

    named: ClassVar[dict[str, CodeType]] = {}
    packages: ClassVar[set[str]] = set()

    @classmethod
    def find_spec(cls, name: str, *_: object) -> ModuleSpec | None:
        """As importlib asks it. A package has a folder, too, where other wheels add modules."""
        if name not in cls.named:
            return None
        spec = ModuleSpec(name, cls, origin=__file__, is_package=name in cls.packages)  # type: ignore[arg-type]
        if name in cls.packages:
            here = __file__.replace("\\", "/").rpartition("/")[0]
            spec.submodule_search_locations = [f"{here}/{name.replace('.', '/')}"]
        return spec

    @classmethod
    def create_module(cls, spec: ModuleSpec) -> None:
        """As importlib asks it: an ordinary module."""

    @classmethod
    def get_code(cls, name: str) -> CodeType:
        """As runpy asks it, for `python -m`."""
        return cls.named[name]

    @classmethod
    def exec_module(cls, module: ModuleType) -> None:
        """Run the body of a module in it, and call its classes and functions by their own names."""
        exec(cls.get_code(module.__name__), module.__dict__)  # noqa: S102
        for value in module.__dict__.values():
            if isinstance(value, type | FunctionType) and value.__module__ == module.__name__:
                value.__qualname__ = value.__name__


def _enter(functions: dict[str, FunctionType]) -> None:
    """Take the bodies out of the functions; a name's dots are double underscores there."""
    for key, function in functions.items():
        if "__" not in key.strip("_"):
            continue  # the loader's own
        name = key.replace("__", ".").replace("..main.", ".__main__")
        constants = function.__code__.co_consts
        Modules.named[name] = next(part for part in constants if isinstance(part, CodeType))
    Modules.packages = {name.rpartition(".")[0] for name in Modules.named} & {*Modules.named}
    sys.meta_path.insert(0, Modules)
