"""Defects that nobody thought of: each is the cache's own code with one small thing changed.

A mutant changes one place of one function: a call is left out, a comparison or a sum is off, a
condition is turned round. What only speaks (assertions, messages, hooks for observers) is left
alone. The code object of the built function is swapped and put back, so the source stays clean.

Invariant: the same source gives the same mutants in the same order.
"""

import ast
import copy
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

MODULES = (
    "backup",
    "companions",
    "components.full",
    "components.swa",
    "eviction",
    "insertion",
    "keys",
    "loadback",
    "locks",
    "pools",
    "residency",
    "stores",
    "strands",
    "table",
    "transfers",
    "tree",
    "unified",
)
SPEAKS = {"observer", "_observer", "append_event"}  # calls on these tell, and change nothing
QUIET = {"__repr__", "__init__"}  # functions that are left alone
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SUMMED: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`name` is where and what was changed; `code` is what the function becomes."""

    name: str
    module: str
    function: str
    code: CodeType = field(repr=False, compare=False)


def mutants() -> Iterator[Mutant]:
    """All of them, in the order of the source."""
    for name in MODULES:
        yield from mutants_of(importlib.import_module(f"cache.{name}"))


def mutants_of(module: ModuleType) -> Iterator[Mutant]:
    source, short = inspect.getsource(module), module.__name__.removeprefix("cache.")
    places = sum(1 for _ in _changes(ast.parse(source)))
    for index in range(places):
        tree = ast.parse(source)
        change = next(islice(_changes(tree), index, None))
        told = change.tell()
        change.apply()
        ast.fix_missing_locations(tree)
        code = _code_of(compile(tree, module.__file__ or "", "exec"), change.function)
        name = f"{short}:{change.line}:{change.column} {change.function}: {told}"
        yield Mutant(name, module.__name__, change.function, code)


@contextmanager
def put_in(mutant: Mutant) -> Iterator[None]:
    """Inside, the function is the mutant, for every cache of this process."""
    target = _function(importlib.import_module(mutant.module), mutant.function)
    clean, target.__code__ = target.__code__, mutant.code
    try:
        yield
    finally:
        target.__code__ = clean


# -- what can be changed -------------------------------------------------------------------------

Step = tuple[Callable[[], str], Callable[[], None]]  # tells the change, applies it


class Change(NamedTuple):
    """One thing that can be changed in a tree; `tell` before `apply`."""

    function: str
    line: int
    column: int
    tell: Callable[[], str]
    apply: Callable[[], None]


def _changes(tree: ast.Module) -> Iterator[Change]:
    for scope in tree.body:
        if isinstance(scope, ast.FunctionDef):
            yield from _in_function(scope, scope.name)
        elif isinstance(scope, ast.ClassDef):
            for part in scope.body:
                if isinstance(part, ast.FunctionDef):
                    yield from _in_function(part, f"{scope.name}.{part.name}")


def _in_function(function: ast.FunctionDef, name: str) -> Iterator[Change]:
    if function.name in QUIET:
        return
    for parent, key, body in _bodies(function):
        for index, statement in enumerate(body):
            if _is_work(statement):
                yield _change(name, statement, _leaves_out(parent, key, index))
    for node in _inner(function):
        for step in _twists(node):
            yield _change(name, node, step)


def _change(function: str, node: ast.AST, step: Step) -> Change:
    return Change(function, getattr(node, "lineno", 0), getattr(node, "col_offset", 0), *step)


def _bodies(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    for node in _inner(function):
        for key in ("body", "orelse", "finalbody"):
            body = getattr(node, key, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield node, key, body


def _inner(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function that do something, breadth first."""
    todo: list[ast.AST] = [function]
    while todo:
        node = todo.pop(0)
        yield node
        for key, value in ast.iter_fields(node):
            if key in ("annotation", "returns", "decorator_list", "args") and node is not function:
                continue
            if key in ("args", "decorator_list", "returns") and node is function:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _speaks(child):
                    todo.append(child)


def _speaks(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr):
        return True
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(call, ast.Constant) and isinstance(node, ast.Expr):
        return True  # a docstring
    if not isinstance(call, ast.Call):
        return False
    chain, names = call.func, set()
    while isinstance(chain, ast.Attribute):
        names.add(chain.attr)
        chain = chain.value
    return bool(names & SPEAKS or (isinstance(chain, ast.Name) and chain.id in SPEAKS))


def _is_work(statement: ast.stmt) -> bool:
    """Something that can be left out and is not the whole of its function."""
    if _speaks(statement):
        return False
    if isinstance(statement, ast.Assign):
        # Without it a name would be missing: only what is stored somewhere can be forgotten.
        return all(isinstance(t, ast.Attribute | ast.Subscript) for t in statement.targets)
    return isinstance(statement, ast.Expr | ast.AugAssign | ast.Delete | ast.Continue | ast.Break)


def _leaves_out(parent: ast.AST, key: str, index: int) -> Step:
    body = getattr(parent, key)

    def apply() -> None:
        body[index] = ast.Pass()

    return lambda: f"leaves out {ast.unparse(body[index])!r}", apply


def _twists(node: ast.AST) -> Iterator[Step]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        other = COMPARED[type(node.ops[0])]()
        yield _becomes(node, "ops", [other])
    elif isinstance(node, ast.BinOp) and type(node.op) in SUMMED:
        yield _becomes(node, "op", SUMMED[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield _becomes(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for index in range(len(node.values)):
            rest = node.values[:index] + node.values[index + 1 :]
            yield _becomes(node, "values", rest if len(rest) > 1 else [rest[0], rest[0]])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        double = ast.UnaryOp(ast.Not(), node.operand)
        yield _becomes(node, "operand", double)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield _becomes(node, "value", node.value + 1)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield _becomes(node, "test", ast.Constant(False))
        if not isinstance(node, ast.While):
            yield _becomes(node, "test", ast.Constant(True))
    elif isinstance(node, ast.Call) and _named(node) in ("min", "max"):
        yield _becomes(
            node, "func", ast.Name("max" if _named(node) == "min" else "min", ast.Load())
        )
    elif isinstance(node, ast.Call) and _named(node) == "reversed":
        yield _becomes(node, "func", ast.Name("list", ast.Load()))


def _named(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _becomes(node: ast.AST, key: str, value: Any) -> Step:
    def tell() -> str:
        if isinstance(node, ast.If | ast.While):
            return f"{ast.unparse(node.test)!r} becomes {ast.unparse(value)!r}"
        changed = copy.copy(node)
        setattr(changed, key, value)
        return f"{ast.unparse(node)!r} becomes {ast.unparse(changed)!r}"

    return tell, lambda: setattr(node, key, value)


# -- code objects --------------------------------------------------------------------------------


def _code_of(module: CodeType, function: str) -> CodeType:
    code = module
    for name in function.split("."):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code


def _function(module: ModuleType, path: str) -> FunctionType:
    found: Any = module
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(getattr(found, "__func__", found))
    assert isinstance(found, FunctionType), path
    return found
