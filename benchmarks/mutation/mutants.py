"""Mutants of a function: its module's source with one small fault each.

String constants and log calls are left alone, because hardly any test should care about them, and
so are annotations.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# Each comparison's inverse, and for an ordering its neighbour at the boundary.
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGERS = {"log", "logger", "logging"}

NOT_RUN = {"annotation", "decorator_list", "returns", "type_params"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Key = tuple[str, str, str]  # function, change and text of a mutant
Fault = tuple[ast.AST, ast.AST, int, Callable[[ast.AST], None]]


class Mutant(NamedTuple):
    """One fault in a module.

    Attributes:
        function: dotted name, with module and classes.
        number: of this fault among those of its function.
        change: the changed expression, or the first line of the statement, before and after.
        text: the line of source that it begins on, stripped.
    """

    path: str
    module: str
    function: str
    number: int
    line: int
    change: str
    text: str

    @property
    def key(self) -> Key:
        """Names the mutant wherever its function stands in the file."""
        return self.function, self.change, self.text


def functions_of(tree: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Yield functions and methods by dotted name, but not those within functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{prefix}.{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}.{node.name}")


def mutants_of(path: str, module: str, source: str) -> dict[str, list[Mutant]]:
    """All mutants of a module, by function."""
    lines = source.splitlines()
    return {
        name: [
            Mutant(
                path,
                module,
                name,
                number,
                line,
                f"{_first_line(node)} → {_first_line(replacement)}",
                lines[line - 1].strip(),
            )
            for number, (node, replacement, line, _) in enumerate(_faults(function))
        ]
        for name, function in functions_of(ast.parse(source), module)
    }


def mutated(source: str, mutant: Mutant) -> str:
    """A module's source with the fault, without its comments."""
    tree = ast.parse(source)
    function = dict(functions_of(tree, mutant.module))[mutant.function]
    _, replacement, _, put = next(itertools.islice(_faults(function), mutant.number, None))
    put(replacement)
    return ast.unparse(ast.fix_missing_locations(tree))


def _faults(function: Function) -> Iterator[Fault]:
    """Yield each node that can be changed, its replacement, its line, and what puts it there."""
    pending: list[tuple[ast.AST, int]] = [(function, function.lineno)]
    while pending:
        parent, line = pending.pop(0)
        for field, value in ast.iter_fields(parent):
            if field in NOT_RUN:
                continue
            for number, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, ast.AST) and not _is_log_call(child):
                    at = getattr(child, "lineno", line)
                    pending.append((child, at))
                    for replacement in _replacements(child):
                        yield child, replacement, at, _setter(parent, field, number)


def _setter(parent: ast.AST, field: str, number: int) -> Callable[[ast.AST], None]:
    def put(node: ast.AST) -> None:
        siblings = getattr(parent, field)
        if isinstance(siblings, list):
            siblings[number] = node
        else:
            setattr(parent, field, node)

    return put


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    if make := REPLACEMENTS.get(type(node)):
        yield from make(node)


def _of_comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for number, operator in enumerate(node.ops):
        for other in COMPARISONS[type(operator)]:
            ops = [*node.ops[:number], other(), *node.ops[number + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)


def _of_and_or(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _of_sign(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield node.operand


def _of_arithmetic(node: ast.BinOp) -> Iterator[ast.AST]:
    other = ARITHMETIC.get(type(node.op))
    if other and not (_is_text(node.left) or _is_text(node.right)):
        yield ast.BinOp(node.left, other(), node.right)


def _of_assignment(node: ast.AugAssign) -> Iterator[ast.AST]:
    other = ARITHMETIC.get(type(node.op))
    if other and not _is_text(node.value):
        yield ast.AugAssign(node.target, other(), node.value)


def _of_constant(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in FUNCTIONS:
        yield ast.Call(ast.Name(FUNCTIONS[name]), node.args, node.keywords)
    elif name == "sorted" and not any(keyword.arg == "reverse" for keyword in node.keywords):
        reverse = ast.keyword("reverse", ast.Constant(value=True))
        yield ast.Call(node.func, node.args, [*node.keywords, reverse])


def _of_return(node: ast.Return) -> Iterator[ast.AST]:
    if node.value and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None))


def _of_statement(node: ast.Expr) -> Iterator[ast.AST]:
    if isinstance(node.value, ast.Call):
        yield ast.Pass()


def _of_raise(_: ast.Raise) -> Iterator[ast.AST]:
    yield ast.Pass()


def _of_if(node: ast.If) -> Iterator[ast.AST]:
    yield ast.If(ast.Constant(value=True), node.body, node.orelse)
    yield ast.If(ast.Constant(value=False), node.body, node.orelse)


def _of_conditional(node: ast.IfExp) -> Iterator[ast.AST]:
    yield node.body
    yield node.orelse


def _of_comprehension(node: ast.comprehension) -> Iterator[ast.AST]:
    if node.ifs:
        yield ast.comprehension(node.target, node.iter, [], node.is_async)


REPLACEMENTS: dict[type[ast.AST], Callable[[Any], Iterator[ast.AST]]] = {
    ast.Compare: _of_comparison,
    ast.BoolOp: _of_and_or,
    ast.UnaryOp: _of_sign,
    ast.BinOp: _of_arithmetic,
    ast.AugAssign: _of_assignment,
    ast.Constant: _of_constant,
    ast.Call: _of_call,
    ast.Return: _of_return,
    ast.Expr: _of_statement,
    ast.Raise: _of_raise,
    ast.If: _of_if,
    ast.IfExp: _of_conditional,
    ast.comprehension: _of_comprehension,
}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _is_log_call(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    names = {each.id for each in ast.walk(node.value.func) if isinstance(each, ast.Name)}
    return bool(names & LOGGERS)


def _first_line(node: ast.AST) -> str:
    """The first line of a node's source."""
    return ast.unparse(node).splitlines()[0]
