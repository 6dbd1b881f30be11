"""The rules of the repository lint, each a function from source text to findings.

A finding is one line, `12: what is wrong`; no finding means that the text is clean. Nothing here
reads a file, so that every rule can be shown to fail on a bad sample.
"""

import ast
import re
import shlex
from collections.abc import Callable, Iterator

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
MAX_LINE_LENGTH = 100

LAYERS = {  # package: what it may not import
    "cache": {"workloads", "harness", "bench"},
    "workloads": {"cache", "harness", "bench"},
    "harness": {"bench"},
    "tools": {"bench", "cache", "workloads", "harness"},
}
CHANCE_AND_TIME = {"time", "random", "uuid", "threading", "asyncio", "secrets", "datetime"}
SEEDED = {"Generator", "PCG64", "SeedSequence", "BitGenerator"}
ORDER_MATTERS = {"list", "tuple", "iter", "enumerate", "reversed", "zip", "map", "next", "deque"}
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


def file_size(text: str) -> list[str]:
    lines = len(text.splitlines())
    return [f"1: {lines} lines, {MAX_FILE_LINES} at most"] if lines > MAX_FILE_LINES else []


def function_size(text: str) -> list[str]:
    return [
        f"{node.lineno}: {node.name} has {length} lines, {MAX_FUNCTION_LINES} at most"
        for node in _nodes(text, ast.FunctionDef, ast.AsyncFunctionDef)
        if (length := node.end_lineno - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def line_length(text: str) -> list[str]:
    return [
        f"{number}: {len(line)} characters, {MAX_LINE_LENGTH} at most"
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MAX_LINE_LENGTH
    ]


def leftovers(text: str) -> list[str]:
    """Marks of unfinished work, in code and comments."""
    return _matching(text, re.compile(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b"))


def machine_paths(text: str) -> list[str]:
    """Absolute paths of one machine's folders."""
    return _matching(text, re.compile(r"(?<![\w.])/(?:work|farm)\b(?!\w)"))


def repeatable(text: str) -> list[str]:
    """For code whose every decision must repeat exactly: nothing that differs between two runs."""
    found = [
        f"{line}: imports {name}"
        for line, name in imports(text)
        if name.split(".")[0] in CHANCE_AND_TIME or name in ("os.urandom", "numpy.random")
    ]
    for node in _nodes(text, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ("id", "hash"):
            found.append(f"{node.lineno}: calls {node.func.id}()")
        if _dotted(node.func) == "os.urandom":
            found.append(f"{node.lineno}: calls os.urandom()")
    found += [f"{node.lineno}: a global statement" for node in _nodes(text, ast.Global)]
    return found


def seeded_chance(text: str) -> list[str]:
    """No generator that a run shares or that nobody seeded."""
    found = [f"{line}: imports {name}" for line, name in imports(text) if _root(name) == "random"]
    for node in _nodes(text, ast.Attribute):
        owner, _, name = _dotted(node).rpartition(".")
        if owner in ("np.random", "numpy.random") and name not in SEEDED | {"default_rng"}:
            found.append(f"{node.lineno}: {owner}.{name} is not a seeded generator")
    for node in _nodes(text, ast.Call):
        if _dotted(node.func).endswith((".default_rng", ".PCG64")) and not (
            node.args or node.keywords
        ):
            found.append(f"{node.lineno}: a generator without a seed")
    return found


def counters(text: str) -> list[str]:
    """Counters that outlive a run: itertools.count bound in a module or a class body."""
    found = []
    for scope in _nodes(text, ast.Module, ast.ClassDef):
        for statement in scope.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
                calls = [node for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
                if any(_dotted(call.func) in ("itertools.count", "count") for call in calls):
                    found.append(f"{statement.lineno}: a counter that all runs share")
    return found


def set_order(text: str) -> list[str]:
    """Iteration over a set, whose order no run can count on; sorted(...) is the way out.

    Sees set displays, set(...) and names of the same scope that are annotated as or bound to one.
    """
    tree = ast.parse(text)
    attributes = _set_names(ast.walk(tree), attributes=True)
    found = set()
    for scope in _nodes(text, ast.Module, ast.FunctionDef, ast.AsyncFunctionDef):
        names = _set_names(_own(scope), attributes=False) | attributes
        for node in _own(scope):
            for iterated in _iterated(node):
                if _is_set(iterated, names):
                    found.add((iterated.lineno, ast.unparse(iterated)))
    return [f"{line}: iterates over the set {what}" for line, what in sorted(found)]


def layering(text: str, package: str) -> list[str]:
    """Imports that point up or sideways from a module of `package`."""
    barred = LAYERS.get(package, {"bench"})
    return [
        f"{line}: {package} imports {name}" for line, name in imports(text) if _root(name) in barred
    ]


def unused_modules(texts: dict[str, str], entry_points: set[str]) -> list[str]:
    """The dotted names in `texts` that no other text imports; packages themselves are not asked."""
    named: set[str] = set()
    for module, text in texts.items():
        named |= {name for _, name in imports(text, module) if name != module}
    return sorted(set(texts) - named - entry_points)


def imports(text: str, module: str = "") -> list[tuple[int, str]]:
    """(line, dotted name) of every import; `from a import b` names both a and a.b.

    Relative imports are resolved when `module`, the importing module's dotted name, is given.
    """
    found = []
    for node in _nodes(text, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
            continue
        base = node.module or ""
        if node.level:
            above = ".".join(module.split(".")[: -node.level])
            base = f"{above}.{base}".strip(".")
        found.append((node.lineno, base))
        found += [(node.lineno, f"{base}.{alias.name}".strip(".")) for alias in node.names]
    return found


def headings(markdown: str) -> list[tuple[int, int, str]]:
    """(line, level, title) of the headings outside fenced blocks."""
    found = []
    for number, line, fence in _markdown_lines(markdown):
        match = re.match(r"(#{1,6}) +(.+)", line)
        if match and fence is None:
            found.append((number, len(match[1]), match[2].strip()))
    return found


def one_title(markdown: str) -> list[str]:
    titles = [line for line, level, _ in headings(markdown) if level == 1]
    return [] if len(titles) == 1 else [f"1: {len(titles)} first-level headings, one wanted"]


def anchors(markdown: str) -> set[str]:
    """The #fragments that the headings of a document answer to."""
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for _, _, title in headings(markdown))
    return {title.strip().replace(" ", "-") for title in plain}


def dead_links(markdown: str, document_at: Callable[[str], str | None]) -> list[str]:
    """Relative links that lead nowhere.

    `document_at` gives what lies at a path relative to the document: its text (anything for what is
    not Markdown), None when nothing is there; the empty path is the document itself.
    """
    found = []
    for number, line, fence in _markdown_lines(markdown):
        for target in [] if fence is not None else re.findall(r"\]\(([^)\s]+)[^)]*\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, fragment = target.partition("#")
            document = document_at(path)
            if document is None:
                found.append(f"{number}: nothing at {target}")
            elif fragment and fragment not in anchors(document):
                found.append(f"{number}: no heading for {target}")
    return found


def shell_commands(markdown: str) -> list[tuple[int, list[str]]]:
    """(line, words) of the commands in ```sh blocks; a trailing backslash joins lines."""
    found: list[tuple[int, list[str]]] = []
    pending, started = "", 0
    for number, line, fence in _markdown_lines(markdown):
        if fence != "sh" or not line.strip():
            continue
        started = started if pending else number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        words = shlex.split((pending + line).removeprefix("$ "), comments=True)
        pending = ""
        if words:
            found.append((started, words))
    return found


def _nodes(text: str, *kinds: type[ast.AST]) -> list:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


def _matching(text: str, pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{number}: {match[0]}"
        for number, line in enumerate(text.splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def _root(name: str) -> str:
    return name.split(".")[0]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def _own(scope: Scope) -> Iterator[ast.AST]:
    """The nodes of a scope, without those of the functions inside it."""
    todo: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            todo += ast.iter_child_nodes(node)


def _set_names(nodes: Iterator[ast.AST], *, attributes: bool) -> set[str]:
    """Names (or, with `attributes`, dotted names) that hold a set by annotation or binding."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.arg) and node.annotation and not attributes:
            targets, holds = [ast.Name(node.arg)], _is_set_type(node.annotation)
        elif isinstance(node, ast.AnnAssign):
            targets, holds = [node.target], _is_set_type(node.annotation)
        elif isinstance(node, ast.Assign):
            targets, holds = node.targets, _is_set(node.value, set())
        else:
            continue
        wanted = ast.Attribute if attributes else ast.Name
        found |= {_dotted(target) for target in targets if holds and isinstance(target, wanted)}
    return found


def _is_set_type(annotation: ast.expr) -> bool:
    return bool(re.match(r"(?:frozen)?set\b|(?:typing\.)?AbstractSet\b", ast.unparse(annotation)))


def _is_set(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub):
        return _is_set(node.left, names) or _is_set(node.right, names)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in SET_METHODS:
            return _is_set(node.func.value, names)
        return _dotted(node.func) in ("set", "frozenset")
    return _dotted(node) in names


def _iterated(node: ast.AST) -> list[ast.expr]:
    """What `node` goes over in the order it comes in."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.iter]
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp):
        return [generator.iter for generator in node.generators]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Call) and _root(_dotted(node.func)) in ORDER_MATTERS:
        return list(node.args)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        ordered = node.func.attr in ("join", "extend", "extendleft")
        popped = node.func.attr == "pop" and not node.args
        return list(node.args) if ordered else [node.func.value] if popped else []
    return []


def _markdown_lines(markdown: str) -> Iterator[tuple[int, str, str | None]]:
    """(line, text, language of the fenced block it is in or None); the fences are left out."""
    fence: str | None = None
    for number, line in enumerate(markdown.splitlines(), 1):
        mark = re.match(r" *```+ *(\w*)", line)
        if mark:
            fence = mark[1] if fence is None else None
        else:
            yield number, line, fence
