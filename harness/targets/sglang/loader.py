"""Imports a release from its unpacked wheel, with stand-ins for what `table` names.

Invariant: one process imports one release; nothing but names in the table is stood in for.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.targets.sglang import table

ROOT = "sglang"


def load(folder: Path, version: str) -> None:
    """Make `import sglang...` find the wheel unpacked in `folder`, beside its packages."""
    import torch

    loaded = sys.modules.get(ROOT)
    if loaded is not None:
        assert loaded.__version__ == version, "a process tortures one release only"
        return
    torch.compile = _uncompiled  # type: ignore[assignment]
    sys.path.append(str(folder.parent / "packages"))
    for package, names in table.WIRE.items():
        for name in names:
            setattr(importlib.import_module(package), name, _blank(name))
    sys.meta_path.insert(0, _Finder(folder / ROOT, version))


def upstream(name: str) -> Any:
    """A module of the release, such as `srt.mem_cache.common`."""
    return importlib.import_module(f"{ROOT}.{name}")


def has(name: str) -> bool:
    """Whether the release has this module."""
    try:
        return find_spec(f"{ROOT}.{name}") is not None
    except ModuleNotFoundError:
        return False


def modules() -> list[ModuleType]:
    """The release's own modules that have been imported, by name."""
    return _modules(len(sys.modules))


@lru_cache(maxsize=1)
def _modules(imported: int) -> list[ModuleType]:
    """Modules come and never go, so their number tells whether there is a new one."""
    names = sorted(name for name in sys.modules if name.startswith(f"{ROOT}."))
    found = [sys.modules[name] for name in names]
    return [module for module in found if not isinstance(module, _Module)]


def stood_in() -> list[str]:
    """The stand-ins that the imports so far have asked for."""
    return sorted(name for name, module in sys.modules.items() if isinstance(module, _Module))


@contextmanager
def apart() -> Iterator[None]:
    """For other libraries, which ask whether a package is there: no stand-in of one is."""
    hidden = {n: m for n, m in sys.modules.items() if isinstance(m, _Module) and _foreign(n)}
    finders = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    for name in hidden:
        del sys.modules[name]
    for finder in finders:
        sys.meta_path.remove(finder)
    try:
        yield
    finally:
        sys.modules.update(hidden)
        sys.meta_path[:0] = finders


def _foreign(name: str) -> bool:
    return name.partition(".")[0] != ROOT


def _uncompiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    return (lambda f: f) if function is None else function


class _Blank(type):
    """The class of stand-in classes: any attribute is another one; used as a decorator it does
    nothing; whatever else it is called with, the result is an instance that is false."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _blank(f"{cls.__name__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return super().__call__()

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class _Nothing:
    """What stand-in classes inherit."""

    def __init_subclass__(cls, **options: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _blank(name)()

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, item: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self


def _blank(name: str) -> Any:
    return _Blank(name, (_Nothing,), {})


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _blank(name)
        setattr(self, name, value)
        return value


class _Finder(MetaPathFinder, Loader):
    """First in line: takes the names of the table and leaves all others alone."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder = folder
        self._version = version

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        top, _, part = fullname.partition(".")
        if top == ROOT:
            if not (part in table.BARE or _covered(part, table.PARTS)) or part in table.KEPT:
                return None
            folders = [str(self._folder / part.replace(".", "/"))]
        elif top in table.PACKAGES and PathFinder.find_spec(top) is None:
            folders = []
        else:
            return None
        spec = ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = folders
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        part = spec.name.partition(".")[2] if spec.name.startswith(f"{ROOT}.") else None
        bare = spec.name == ROOT or part in table.BARE
        module = (ModuleType if bare else _Module)(spec.name)
        module.__dict__["__version__"] = self._version if spec.name == ROOT else "9999.0.0"
        module.__dict__.update(table.VALUES.get(part or "", {}))
        return module

    def exec_module(self, module: ModuleType) -> None: ...


def _covered(part: str, parts: frozenset[str]) -> bool:
    """Whether `part` is one of `parts` or inside one."""
    while part:
        if part in parts:
            return True
        part = part.rpartition(".")[0]
    return False
