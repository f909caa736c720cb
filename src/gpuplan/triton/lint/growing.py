"""Check of a Python model's code for state that grows with every request, until the process is out of memory."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuplan.triton.lint.check import Check, CheckGroup, Effect, Findings, LintedModel, LintedRepository
from gpuplan.triton.lint.python import Function, Source, sources
from gpuplan.types.diagnostic import Severity

GROWING = Check("python-growing-state", "State that grows with every request", Effect.WRONG, Severity.WARNING)

_LISTS = frozenset({"append", "extend", "insert", "appendleft", "extendleft"})
"""Methods that make a thing longer, whatever it is."""
_GROW = _LISTS | {"add", "setdefault", "update"}
"""Methods that make a set or a dict larger, and that other things have for other ends."""
_SHRINK = frozenset({"pop", "popleft", "popitem", "clear", "remove", "discard"})
_COLLECTIONS = frozenset({"list", "dict", "set", "defaultdict", "OrderedDict", "deque"})


@dataclass(frozen=True)
class _Owner:
    """Whose state it is: `self` of a method, or the module (empty)."""

    name: str

    def state(self, node: ast.expr) -> str:
        """``x`` of ``self.x``, or a plain name where it is the module's; else an empty text."""
        if isinstance(node, ast.Name):
            return "" if self.name else node.id
        mine = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.name
        return node.attr if mine and isinstance(node, ast.Attribute) else ""


def _growing(model: LintedModel, _: LintedRepository) -> Findings:
    for source in sources(model):
        methods = list(_reached(source))
        for method, owner, name, node in _unbounded(source, methods):
            shown = f"self.{name}" if owner.name else name
            yield GROWING.at(
                source.where(node),
                f"{method.name} of {model.name} adds to {shown}, and nothing removes from it: the process grows "
                "with each request.",
                f"Keep {shown} bounded: collections.deque(maxlen=…), a cache with a size, or clear it.",
            )


def _unbounded(source: Source, methods: list[Function]) -> Iterator[tuple[Function, _Owner, str, ast.expr | ast.stmt]]:
    """What grows in the methods that each request runs, each thing once."""
    everything = list(source.methods())
    begun = {method.name for method in methods} - {"initialize", "__init__"}
    for of_module in (False, True):
        made = _made(source, everything, of_module)
        kept = {name for method in everything for name in _shrunk(method, of_module, method.name in begun)}
        for method in methods:
            owner = _owner(method, of_module)
            for name, node, by in _grown(method, owner):
                known = made.get(name)
                collection = known if known is not None else by in _LISTS and not of_module
                if collection and name not in kept:
                    kept.add(name)
                    yield method, owner, name, node


def _reached(source: Source) -> Iterator[Function]:
    """The methods that run with each request: execute, and what it calls of its own object."""
    methods = {method.name: method for method in source.methods()}
    waiting, seen = ["execute"], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in methods:
            continue
        seen.add(name)
        yield methods[name]
        owner = _owner(methods[name], of_module=False)
        waiting += [owner.state(node.func) for node in ast.walk(methods[name]) if isinstance(node, ast.Call)]


def _made(source: Source, methods: list[Function], of_module: bool) -> dict[str, bool]:
    """State → whether it begins as a collection without a bound."""
    found: dict[str, bool] = {}
    places: list[tuple[_Owner, Iterable[ast.AST]]] = []
    if of_module:
        places.append((_Owner(""), source.tree.body if source.tree else ()))
    else:
        places.extend((_owner(method, of_module=False), ast.walk(method)) for method in methods)
        places.append((_Owner(""), source.model.body if source.model else ()))
    for owner, nodes in places:
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for name in filter(None, map(owner.state, _targets(node))):
                    found[name] = found.get(name, True) and _is_collection(node.value)
    return found


def _grown(method: Function, owner: _Owner) -> list[tuple[str, ast.expr | ast.stmt, str]]:
    """What a method makes larger, in the order of its lines: name, place, and the method or sign that does it."""
    counted, local = _counters(method), _local(method)
    found: list[tuple[str, ast.expr | ast.stmt, str]] = []
    for node in ast.walk(method):
        target, by = _growth(node, counted)
        name = owner.state(target) if target is not None else ""
        if name and (owner.name or name not in local) and isinstance(node, ast.expr | ast.stmt):
            found.append((name, node, by))
    return sorted(found, key=lambda each: each[1].lineno)


def _growth(node: ast.AST, counted: set[str]) -> tuple[ast.expr | None, str]:
    """What a node makes larger, and by what; what is kept under a key grows with the whole."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROW:
        inner = isinstance(node.func.value, ast.Subscript)
        return _whole(node.func.value), "[]" if inner else node.func.attr
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _is_collection(node.value):
        return _whole(node.target), "[]" if isinstance(node.target, ast.Subscript) else "extend"
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        index = node.targets[0].slice
        fixed = isinstance(index, ast.Constant | ast.Slice) or getattr(index, "id", "") in counted
        return (None, "") if fixed else (node.targets[0].value, "[]")
    return None, ""


def _whole(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _shrunk(method: Function, of_module: bool, with_each_request: bool) -> Iterator[str]:
    """State that a method takes from, or resets while requests are served."""
    owner = _owner(method, of_module)
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHRINK:
            yield owner.state(node.func.value)
        elif isinstance(node, ast.Delete):
            yield from (owner.state(each.value if isinstance(each, ast.Subscript) else each) for each in node.targets)
        elif with_each_request and isinstance(node, ast.Assign | ast.AnnAssign):
            yield from map(owner.state, _targets(node))


def _owner(method: Function, of_module: bool) -> _Owner:
    arguments = [*method.args.posonlyargs, *method.args.args]
    return _Owner("" if of_module or not arguments else arguments[0].arg)


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _is_collection(node: ast.expr) -> bool:
    """True for what begins as a list, dict or set that may grow for ever."""
    if isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    sized = len(node.args) > 1 or any(keyword.arg == "maxlen" for keyword in node.keywords)
    return called in _COLLECTIONS and not (called == "deque" and sized)


def _counters(method: Function) -> set[str]:
    """Names that a ``for`` counts with ``range`` or ``enumerate``: what they number is as long as one request."""
    found = set[str]()
    for node in ast.walk(method):
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
            first = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
            if getattr(node.iter.func, "id", "") in ("range", "enumerate") and isinstance(first, ast.Name):
                found.add(first.id)
    return found


def _local(method: Function) -> set[str]:
    """Names that a method gives a value of its own."""
    shared = {name for node in ast.walk(method) if isinstance(node, ast.Global) for name in node.names}
    stored = {node.id for node in ast.walk(method) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    given = {argument.arg for argument in [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]}
    return (stored | given) - shared


CHECKS = CheckGroup(
    checks=(GROWING,),
    model_checks=(_growing,),
)
