"""Mutants of a module: one small change of its syntax tree each. What no test can notice is left out by rule."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.MatMult: ast.Mult},
}
EXTREMES = {"min": "max", "max": "min"}
# Texts for people, guards against programming errors, and what changes speed but no result.
PLAIN_KEYWORDS = {"description", "summary", "strict", "frozen", "encoding", "maxsize", "threads", "block", "slots"}
TALK = {"print", "warn", "debug", "info", "warning", "error", "echo", "cast", "TypeVar", "__repr__"}
SPEED = re.compile(r"_*(BLOCK|CHUNK\w*|STEPS|WORTH\w*|KEPT)")  # constants that change speed but no result


@dataclass(frozen=True)
class Mutant:
    """A change: the node at `index` of the walk through the tree becomes its variant number `variant`."""

    file: str
    source: str  # of the module
    line: int
    column: int
    change: str
    lines: range  # a test that notices the change runs one of these; empty: any line of the module
    index: int
    variant: int

    @property
    def text(self) -> str:
        """Its line of the source."""
        return self.source.splitlines()[self.line - 1].strip()


def mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines."""
    found = []
    for index, (node, lines) in enumerate(_walk(ast.parse(source))):
        for variant, changed in enumerate(_variants(node) if lines is not None else ()):
            assert isinstance(node, ast.expr | ast.stmt)
            line, change = node.lineno, f"{_shown(node, changed)} -> {_shown(changed, node)}"
            place = (line, node.col_offset + 1, change, lines or range(0))
            found.append(Mutant(file, source, *place, index, variant))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.index, mutant.variant))


def mutated(mutant: Mutant) -> ast.Module:
    """The tree of the module with the change."""
    tree = ast.parse(mutant.source)
    target = [node for node, _ in _walk(tree)][mutant.index]
    _Swap(target, _variants(target)[mutant.variant]).visit(tree)
    return ast.fix_missing_locations(tree)


def _shown(node: ast.AST, other: ast.AST) -> str:
    """The part of a node that differs from another, in one line."""
    if isinstance(node, ast.If | ast.IfExp):
        return f"if {ast.unparse(node.test)}"
    if isinstance(node, ast.Call) and isinstance(other, ast.Call) and len(node.keywords) != len(other.keywords):
        dropped = [ast.unparse(one) for one in node.keywords if one not in other.keywords]
        return f"{ast.unparse(node.func)}({', '.join(['...', *dropped])})"
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self._new, node) if node is self._old else self.generic_visit(node)


def _walk(node: ast.AST, lines: range | None = range(0)) -> Iterator[tuple[ast.AST, range | None]]:
    """All nodes in a fixed order, each with the lines of its tests; None: the node is not changed."""
    if lines is not None and _is_left_out(node):
        lines = None
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        header, inner = range(node.body[0].lineno, _end(node)), range(0, 1)
    elif isinstance(node, ast.stmt) and lines:
        body = getattr(node, "body", None)
        header = inner = range(node.lineno, max(node.lineno + 1, body[0].lineno) if body else _end(node))
    else:
        header, inner = (lines, lines) if lines is not None else (range(0), range(0))
    yield node, (header if lines is not None else None)
    for name, value in ast.iter_fields(node):
        kept = lines is not None and name not in ("annotation", "returns", "decorator_list", "bases", "type_params")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, None if not kept else inner if name == "body" else header)


def _end(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) + 1


def _is_left_out(node: ast.AST) -> bool:
    """Messages, annotations, stubs, type declarations and settings of speed."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.FunctionDef(name=name):
            return name in TALK
        case ast.ClassDef(bases=bases):
            return any("Protocol" in ast.unparse(base) for base in bases)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg=arg):
            return arg in PLAIN_KEYWORDS
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in TALK
        case ast.Subscript(value=ast.Name(id=name)):
            return name in ("Literal", "Annotated", "Callable", "tuple", "dict", "list")
        case ast.Assign(targets=[ast.Name(id=name)]):
            return SPEED.fullmatch(name) is not None
    return False


def _variants(node: ast.AST) -> list[ast.AST]:
    """The changed versions of one node."""
    match node:
        case ast.stmt():
            return _statement_variants(node)
        case ast.Constant():
            return _constant_variants(node)
        case ast.Call():
            return _call_variants(node)
        case ast.Compare(left=left, ops=ops, comparators=right):
            swaps = [[*ops[:i], COMPARISONS[type(op)](), *ops[i + 1 :]] for i, op in enumerate(ops)]
            return [ast.Compare(left, swapped, right) for swapped in swaps]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC and not _has_no_other(left, right):
            return [ast.BinOp(left, ARITHMETIC[type(op)](), right)]
        case ast.BoolOp(op=op, values=values):
            return [ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)]
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            return [operand] if not isinstance(operand, ast.Constant) else []
        case ast.Slice(lower=lower, upper=upper, step=step):
            return [
                *([ast.Slice(_next(lower), upper, step)] if lower is not None and _moves(lower) else []),
                *([ast.Slice(lower, _next(upper), step)] if upper is not None and _moves(upper) else []),
            ]
        case ast.IfExp(test=test, body=yes, orelse=no) if _is_plain(test):
            return [ast.IfExp(_negated(test), yes, no)]
    return []


def _statement_variants(node: ast.stmt) -> list[ast.AST]:
    match node:
        case ast.AugAssign(target=target, op=op, value=value):
            swapped = [ast.AugAssign(target, ARITHMETIC[type(op)](), value)] if type(op) in ARITHMETIC else []
            return [ast.Pass(), *swapped]
        case ast.Expr(value=ast.Call() as call):
            return [] if _is_left_out(call) else [ast.Pass()]
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            return [ast.Return(ast.Constant(None))]
        case ast.If(test=test, body=body, orelse=orelse) if _is_plain(test):
            return [ast.If(_negated(test), body, orelse)]
    return []


def _constant_variants(node: ast.Constant) -> list[ast.AST]:
    match node.value:
        case bool(value):
            return [ast.Constant(not value)]
        case int(value):
            return [ast.Constant(value + 1)]
        case float(value):
            return [ast.Constant(2 * value or 1.0)]
    return []


def _call_variants(node: ast.Call) -> list[ast.AST]:
    found: list[ast.AST] = []
    if isinstance(node.func, ast.Name) and node.func.id in EXTREMES:
        found.append(ast.Call(ast.Name(EXTREMES[node.func.id], ast.Load()), node.args, node.keywords))
    if isinstance(node.func, ast.Attribute) and node.func.attr in EXTREMES:
        swapped = ast.Attribute(node.func.value, EXTREMES[node.func.attr], ast.Load())
        found.append(ast.Call(swapped, node.args, node.keywords))
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in PLAIN_KEYWORDS:
            found.append(ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :]))
    return found


def _moves(bound: ast.expr) -> bool:
    """Whether a bound of a slice has no constant; those have mutants of their own."""
    return not any(isinstance(part, ast.Constant) for part in ast.walk(bound))


def _next(bound: ast.expr) -> ast.expr:
    return ast.BinOp(bound, ast.Add(), ast.Constant(1))


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _is_plain(test: ast.expr) -> bool:
    return isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _has_no_other(*operands: ast.expr) -> bool:
    """Whether other arithmetic would just be a TypeError: with texts, lists and types."""
    return any(
        isinstance(one, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(one, ast.Constant) and isinstance(one.value, str | None))
        for one in operands
    )
