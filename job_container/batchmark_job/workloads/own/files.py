"""Users' own workloads, one file each, in the format described in own_workloads/README.md.

Describing a workload parses its file without running it.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib.util
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from batchmark_job.errors import InputError
from batchmark_job.workloads.base import DTYPE_BYTES, Axis, Workload
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.own.implementations import UserArrays, UserCode, as_tensor
from batchmark_job.workloads.support import reference, torch_calls
from batchmark_job.workloads.tensors import Parameters, Tensor, Tensors

FOLDER_VARIABLE = "BATCHMARK_WORKLOADS"
BUNDLED = Path(__file__).parents[3] / "own_workloads"
LARGEST = 10**12  # judgment: beyond what any memory holds, so a larger one is a mistake
MODULE_PREFIX = "own_workload_"

FUNCTIONS = ("set_up", "reference")
STEPS = ("step", "step_cpu", "step_cuda")  # at least one of them, for one or both devices
OPTIONAL_FUNCTIONS = ("flops", "elements_moved", "elements_held")
DEFAULTS: Mapping[str, Any] = {
    "AXES": None,
    "DTYPES": ("float32",),
    "TOLERANCE": None,
    "NEEDS_GRADIENTS": False,
    "REPEATABLE": True,
}
# By path and checksum, so that a file runs once however many rows it has.
_workloads: dict[tuple[Path, str], UserWorkload] = {}


def find_workload(name: str) -> Workload:
    """Return the built-in or user's own workload with this name.

    Raises:
        InputError: there is no such workload, or its file can't be used.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    files = find_user_files()
    if name not in files:
        known = [*WORKLOADS, *files]
        close = difflib.get_close_matches(name, known, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise InputError(f"unknown workload {name!r}{meant}; known: {', '.join(known)}")
    return read_workload(files[name])


def refuse_name_clash(name: str) -> None:
    """Refuse a built-in workload's name if a user's own workload has the same name.

    Raises:
        InputError: a file has the same name.
    """
    if name in WORKLOADS and name in find_user_files():
        read_workload(find_user_files()[name])


def user_folder() -> Path:
    """Return the folder set by the user, or the one shipped with this program if none is set.

    Raises:
        InputError: the folder does not exist.
    """
    given = os.environ.get(FOLDER_VARIABLE)
    folder = Path(given) if given else BUNDLED
    if not folder.is_dir():
        raise InputError(
            f"{FOLDER_VARIABLE} is {given!r}, which is not an existing folder: create it or unset "
            "the variable"
        )
    return folder


def find_user_files() -> dict[str, Path]:
    """Return the files in user_folder(), keyed by workload name."""
    return {path.stem: path for path in sorted(user_folder().glob("[!_]*.py"))}


def read_workload(path: Path) -> UserWorkload:
    """Read a workload from its file without running it.

    Raises:
        InputError: the file can't be used; the message names it and lists all its problems.
    """
    problems: list[str] = []
    source, constants, summary, steps = b"", dict(DEFAULTS), "", tuple[str, ...]()
    if path.stem in WORKLOADS:
        problems.append(f"{path.stem} is a built-in workload; rename the file")
    if not re.fullmatch("[a-z][a-z0-9_]*", path.stem):
        problems.append(
            "its name can only contain a-z, 0-9 and _, and must start with a letter; rename it"
        )
    try:
        source = path.read_bytes()
        tree = ast.parse(source, path.name)
    except OSError as error:
        problems.append(f"it can't be read: {error.strerror}")
    except (SyntaxError, ValueError) as error:
        problems.append(f"it is not valid Python: {error}")
    else:
        summary = (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")
        problems += _wrong_constants(tree, constants)
        problems += _wrong_functions(tree, constants["AXES"])
        steps = tuple(name for name in STEPS if name in _functions(tree))
    if problems:
        raise InputError(f"your workload {path} can't be used: {'; '.join(problems)}")
    key = path, hashlib.sha256(source).hexdigest()[:12]
    if key not in _workloads:
        _workloads[key] = UserWorkload(*key, summary, constants, steps)
    return _workloads[key]


def _wrong_constants(tree: ast.Module, constants: dict[str, Any]) -> Iterator[str]:
    """Fill in `constants` from the file, and yield a description of anything wrong with them."""
    plain = True
    for name, value in _assignments(tree):
        if name in constants:
            try:
                constants[name] = ast.literal_eval(value)
            except (ValueError, TypeError):
                plain = False
                yield f"{name} on line {value.lineno} is not a literal; write out its value"
                constants[name] = DEFAULTS[name]
    if plain:
        yield from _wrong_axes(constants["AXES"])
    yield from _wrong_dtypes(constants["DTYPES"])
    if not _is_tolerance(constants["TOLERANCE"]):
        yield (
            f"TOLERANCE is {constants['TOLERANCE']!r}; it must be a number greater than 0, such as "
            "1e-4"
        )
    for name in ("NEEDS_GRADIENTS", "REPEATABLE"):
        if type(constants[name]) is not bool:
            yield f"{name} is {constants[name]!r}; it must be True or False"


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield names and values assigned at the module's top level, annotated or not."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _wrong_axes(axes: object) -> Iterator[str]:
    if not isinstance(axes, dict) or not axes:
        found = "missing" if axes is None else f"{axes!r}"
        yield f'AXES is {found}; define it, for example as AXES = {{"size": (1000, 4000)}}'
        return
    for name, values in axes.items():
        if not isinstance(name, str) or not name.isidentifier():
            yield (
                f"AXES contains the invalid name {name!r}; use a valid argument name, such as size"
            )
        elif not isinstance(values, tuple) or not values:
            yield f"AXES maps {name} to {values!r}; use a tuple such as (1000,)"
        elif not all(type(value) is int and 1 <= value <= LARGEST for value in values):
            yield f"AXES maps {name} to {values!r}; use whole numbers from 1 to {LARGEST}"


def _wrong_dtypes(dtypes: object) -> Iterator[str]:
    if not isinstance(dtypes, tuple) or not dtypes:
        yield f'DTYPES is {dtypes!r}; it must be a tuple, such as DTYPES = ("float32",)'
        return
    for dtype in dtypes:
        if dtype not in [*DTYPE_BYTES]:
            yield f"DTYPES contains the unknown dtype {dtype!r}; known: {', '.join(DTYPE_BYTES)}"


def _is_tolerance(limit: Any) -> bool:
    """Return whether this is a valid tolerance; None means the dtype's default."""
    return limit is None or (type(limit) in {int, float} and math.isfinite(limit) and limit > 0)


def _wrong_functions(tree: ast.Module, axes: object) -> Iterator[str]:
    names = list(axes) if isinstance(axes, dict) else []
    functions = _functions(tree)
    expected = dict.fromkeys(OPTIONAL_FUNCTIONS, names) | {"set_up": ["dtype", *names]}
    for name in FUNCTIONS:
        if name not in functions:
            arguments = ", ".join(expected.get(name, ["*inputs"]))
            yield f"{name}() is missing; add def {name}({arguments}){_meant(name, functions)}"
    if not functions.keys() & set(STEPS):
        meant = _meant("step", functions)
        yield (
            "step() is missing; define step(*inputs), step_cpu(*arrays) or step_cuda(*tensors)"
            f"{meant}"
        )
    for name, wanted in expected.items():
        if names and name in functions:
            found = [a.arg for a in (*functions[name].args, *functions[name].kwonlyargs)]
            if set(found) != set(wanted):
                yield (
                    f"{name}() takes the arguments ({', '.join(found)}) instead of "
                    f"({', '.join(wanted)})"
                )


def _meant(name: str, functions: Iterable[str]) -> str:
    """Suggest that a function with a similar name be renamed to `name`, if there is one."""
    others = [one for one in functions if one not in {*FUNCTIONS, *STEPS, *OPTIONAL_FUNCTIONS}]
    close = difflib.get_close_matches(name, others, n=1)
    return f" (there is {close[0]}(): rename it?)" if close else ""


def _functions(tree: ast.Module) -> dict[str, ast.arguments]:
    return {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}


class UserWorkload(Workload):
    """A workload read from a file; its code doesn't run until one of its functions is needed."""

    about_tolerance = (
        "; if the step can't be more precise, raise the limit in the file, for example TOLERANCE = "
        "1e-4"
    )

    def __init__(
        self,
        path: Path,
        checksum: str,
        summary: str,
        constants: Mapping[str, Any],
        steps: tuple[str, ...],
    ) -> None:
        self.path = path
        self.checksum = checksum
        self.name = path.stem
        self.summary = summary
        self.sizes: Mapping[str, tuple[int, ...]] = constants["AXES"]
        self.dtypes: tuple[str, ...] = constants["DTYPES"]
        self.axes = tuple(
            Axis(name, minimum=1, maximum=LARGEST, default=values[0])
            for name, values in self.sizes.items()
        )
        self.needs_gradients = constants["NEEDS_GRADIENTS"]
        self.repeatable = constants["REPEATABLE"]
        self.implementations = tuple(
            (UserArrays if step == "step_cpu" else UserCode)(self, step) for step in steps
        )
        self._tolerance: float | None = constants["TOLERANCE"]
        self._module: ModuleType | None = None
        self._input_bytes: dict[tuple[object, ...], int] = {}
        self._formulas: dict[tuple[object, ...], int | None] = {}

    def __reduce__(self) -> tuple[Callable[..., Workload], tuple[Any, ...]]:
        """Pickle only the path; other processes read the file themselves."""
        return read_workload, (self.path,)

    def function(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self._load(), name)
        return found

    def formula(self, name: str, parameters: Parameters) -> int | None:
        """Return an optional function's result, or None if the file does not define it."""
        key = (name, *parameters.items())
        if key not in self._formulas:
            formula = getattr(self._load(), name, None)
            self._formulas[key] = None if formula is None else _count(name, formula(**parameters))
        return self._formulas[key]

    def _known(self, name: str, parameters: Parameters) -> int | None:
        """Return an optional function's result if already known, or None: running it might fail."""
        return self._formulas.get((name, *parameters.items()))

    def tolerance(self, dtype: str) -> float:
        return super().tolerance(dtype) if self._tolerance is None else self._tolerance

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the inputs' size, making them once to find out."""
        key = (dtype, *parameters.items())
        if key not in self._input_bytes:
            self.make_inputs(parameters, dtype, seed=0)
        return self._input_bytes[key]

    def flops(self, parameters: Parameters) -> int | None:
        return self._known("flops", parameters)

    def bytes_moved(self, parameters: Parameters, dtype: str) -> int | None:
        moved = self._known("elements_moved", parameters)
        return None if moved is None else moved * DTYPE_BYTES[dtype]

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        import torch

        for name in OPTIONAL_FUNCTIONS:
            self.formula(name, parameters)
        torch.manual_seed(seed)
        np.random.seed(seed)
        made = self.function("set_up")(dtype=torch_calls.torch_dtype(dtype), **parameters)
        several = isinstance(made, tuple | list)
        inputs = tuple(as_tensor(one, dtype) for one in (made if several else (made,)))
        self._input_bytes[dtype, *parameters.items()] = sum(tensor.nbytes for tensor in inputs)
        return inputs

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:  # noqa: ARG002
        arrays = [
            reference.to_float64(tensor) if tensor.is_floating_point() else tensor.cpu().numpy()
            for tensor in inputs
        ]
        expected = np.asarray(self.function("reference")(*arrays), dtype=np.float64)
        result = reference.to_float64(output)
        if result.shape != expected.shape:
            raise ValueError(
                f"the step returned shape {result.shape}, but reference() returned "
                f"{expected.shape}; the shapes must be equal"
            )
        return reference.relative_error([(result, expected)])

    def _load(self) -> ModuleType:
        if self._module is None:
            spec = importlib.util.spec_from_file_location(f"{MODULE_PREFIX}{self.name}", self.path)
            assert spec is not None  # noqa: S101
            assert spec.loader is not None  # noqa: S101
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module  # where dataclasses look up their annotations
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[spec.name]
                raise
            self._module = module
        return self._module


def _count(name: str, value: object) -> int:
    """Round an optional function's result, such as n log n, down to an integer."""
    try:
        count = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        count = -1
    if count < 0:
        raise ValueError(f"{name}() returned {value!r}; return 0 or a positive number")
    return int(count)
