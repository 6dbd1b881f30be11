"""What of this project's sources one replay of a release needs, and no more.

A function that did not run when the replay was repeated is left out, and so are docstrings,
comments and what annotates functions. What runs once in a process, as it imports the release, is
kept whole, and so are special methods, some of which run only in a process's first run.

Invariant: what is left does the same in the same run; whether it does is for the caller to try.
"""

import ast
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# What prepares a release, once in a process, and what these import.
FIRST = ("harness.targets.sglang.release", "harness.targets.sglang.storage")

Ran = frozenset[tuple[str, str]]  # module and qualified name of each function
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_run(work: Callable[[], Any]) -> Ran:
    """The functions of this project that run while `work` does."""
    seen: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            seen[frame.f_code] = None

    before, others = sys.getprofile(), threading.getprofile()
    sys.setprofile(note)
    threading.setprofile(note)  # those that are started meanwhile
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(others)
    return frozenset(
        (_module_of(path), code.co_qualname)
        for code in seen
        if (path := Path(code.co_filename)).is_relative_to(ROOT / "harness")
    )


def sources_of(name: str, ran: Ran) -> dict[str, str]:
    """A module and all that it imports of this project, what is imported first, first."""
    whole = {one for first in FIRST for one in _visit(first, {}, lambda m: _bare(m, None))}
    found = _visit(name, {}, lambda module: _bare(module, None if module in whole else ran))
    wanted = ran | {one for text in found.values() for one in _imported(ast.parse(text))}
    return found if wanted == ran else sources_of(name, wanted)


def _imported(tree: ast.Module) -> list[tuple[str, str]]:
    """What a module takes from others of this project as it is imported, whether it uses it or
    not."""
    return [
        (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness")
        for alias in node.names
    ]


def _visit(
    name: str, found: dict[str, str], read: Callable[[str], ast.Module], seen: Any = None
) -> dict[str, str]:
    """Packages come after the modules that they import, and need not come before theirs."""
    seen = {} if seen is None else seen
    if name in seen:
        return found
    seen[name] = None
    tree = read(name)
    for wanted in (*_imports(tree), name.rpartition(".")[0]):
        if wanted:
            _visit(wanted, found, read, seen)
    found[name] = ast.unparse(tree)
    return found


def _imports(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness"):
            module = node.module or ""
            inside = [f"{module}.{alias.name}" for alias in node.names]
            found += [item for item in inside if _path(item) is not None] or [module]
    return found


def _path(name: str) -> Path | None:
    base = ROOT.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def _module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _bare(name: str, ran: Ran | None) -> ast.Module:
    """What a module does; of its functions, those that ran or are used as it is imported."""
    path = _path(name)
    assert path is not None, f"no module {name}"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if ran is not None:
        _drop_idle(tree, {qualified for module, qualified in ran if module == name})
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            told = ast.get_docstring(node, clean=False) is not None
            node.body = node.body[told:] or ([] if node is tree else [ast.Pass()])
    _Plain().visit(tree)
    ast.fix_missing_locations(tree)
    _drop_unused_imports(tree)
    return tree


def _drop_idle(tree: ast.Module, ran: set[str]) -> None:
    """Leave out functions and methods that neither ran nor are needed to import the module."""
    needed = _used_on_import(tree)

    needed |= _handed_on(tree, ran)

    def kept(node: ast.stmt, prefix: str) -> bool:
        if not isinstance(node, Function):
            return True
        special = node.name.startswith("__") and node.name.endswith("__")
        return special or prefix + node.name in ran or node.name in needed

    tree.body = [node for node in tree.body if kept(node, "")]
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            node.body = [item for item in node.body if kept(item, f"{node.name}.")] or [ast.Pass()]


def _used_on_import(tree: ast.Module) -> set[str]:
    """Names that are read outside functions, and those that functions of these names read."""
    functions = {node.name: node for node in tree.body if isinstance(node, Function)}
    used = _names(_outside(tree))
    todo = [name for name in sorted(used) if name in functions]
    while todo:
        more = _names([functions[todo.pop()]]) - used
        used |= more
        todo += [name for name in sorted(more) if name in functions]
    return used


def _handed_on(tree: ast.Module, ran: set[str]) -> set[str]:
    """Functions and methods that what ran hands on, uncalled."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    homes = [(tree.body, ""), *((node.body, f"{node.name}.") for node in classes)]
    found: set[str] = set()
    for body, prefix in homes:
        for node in body:
            if isinstance(node, Function) and prefix + node.name in ran:
                found |= _uncalled(node)
    return found


def _uncalled(node: Function) -> set[str]:
    """Names that a function reads without calling them."""
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    others = [n for n in ast.walk(node) if id(n) not in called]
    names = {n.id for n in others if isinstance(n, ast.Name)}
    return names | {n.attr for n in others if isinstance(n, ast.Attribute)}


def _outside(node: ast.Module | ast.ClassDef) -> list[ast.AST]:
    """What runs when a module or a class is made: decorators and defaults of functions, too."""
    found: list[ast.AST] = []
    for item in node.body:
        if isinstance(item, Function):
            found += [*item.decorator_list, *item.args.defaults]
            found += [default for default in item.args.kw_defaults if default is not None]
        elif isinstance(item, ast.ClassDef):
            found += [*item.bases, *item.decorator_list, *_outside(item)]
        else:
            found.append(item)
    return found


def _names(nodes: list[ast.AST]) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


class _Plain(ast.NodeTransformer):
    """Functions without annotations."""

    def __init__(self) -> None:
        self._depth = 0

    def visit_FunctionDef(self, node: Any) -> Any:
        node.returns = None
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for arg in (*every, node.args.vararg, node.args.kwarg):
            if arg is not None:
                arg.annotation = None
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        node.body = node.body or [ast.Pass()]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not self._depth:
            return node
        if node.value is None:
            return None
        return ast.Assign(targets=[node.target], value=node.value)


def _drop_unused_imports(tree: ast.Module) -> None:
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    exported = next((True for node in tree.body if _is_all(node)), False)
    if exported:
        return
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [a for a in node.names if (a.asname or a.name.partition(".")[0]) in used]
            if not node.names:
                continue
        body.append(node)
    tree.body = body


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )
