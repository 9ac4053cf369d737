"""Functions of programs as PyTorch operators, which PyTorch calls without Python."""

from __future__ import annotations

import ctypes
import importlib
import keyword
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydispatch._core.arrays import ElementType
from pydispatch._core.procedure import Procedure
from pydispatch._core.process_lock import process_lock
from pydispatch._core.public import PublicFunction
from pydispatch._core.target import Target, torch_dtype, torch_kernel, torch_load, torch_scalar_type
from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.autograd import let_users_differentiate, make_differentiable
from pydispatch.integrations.gradients import LoadedFunction, loaded
from pydispatch.integrations.interface import check_types, result_shapes
from pydispatch.integrations.torch_numbers import Rank0, rank_0_arguments
from pydispatch.packages import importing

_NAME = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)", re.ASCII)
"""Name of an operator, `namespace::name`."""
_LIBRARY = {"darwin": "libtorch_cpu.dylib", "win32": "torch_cpu.dll"}.get(sys.platform, "libtorch_cpu.so")
"""File of PyTorch with its C++ functions on this system."""

_lock = process_lock()  # guards `_functions` and the registration of operators
_functions: dict[str, TorchFunction] = {}  # those that are not closed, by the names of their operators
_operators: dict[str, _Operator] = {}  # never unregistered: compiled graphs go on to refer to them


@dataclass(frozen=True)
class _Operator:
    """Registration of an operator in PyTorch.

    Attributes:
        schema: Declaration of the operator, its name with the types of arguments and results.
        target_number: Number by which the operator's kernel finds the function to call, its current `Target`.
        library: Object of PyTorch that keeps the operator registered.
    """

    schema: str
    target_number: int
    library: Any


def to_torch(function: Any, name: str) -> TorchFunction:
    """Register a function as a PyTorch operator, and return a callable for it.

    The operator takes tensors of the function's dtypes and ranks, contiguous or not, and numbers. The callable also
    takes numbers for tensors of rank 0. Results are new tensors, of rank 0 for numbers. `torch.compile` and
    `torch.export` know the result shapes; `torch.vmap` is one call for a kernel whose arrays are
    batched, and a call for each element otherwise.

    The operator has the derivative that `pydispatch.vjp` sets, which is the operator `name` with the suffix `_vjp`.
    Without one, differentiation raises an error until `torch.library.register_autograd` registers a derivative.
    Forward-mode differentiation always raises one. The program stays alive until `close`.

    Args:
        function: Function of a program on the CPU, or a kernel or program in Python, which is compiled for this CPU.
        name: "library::operator", which becomes `torch.ops.library.operator`.

    Raises:
        InvalidArgumentError: The object is no such function, its program is closed, PyTorch lacks one of its element
            types, or the name is in use.
    """
    return TorchFunction(loaded(function), name)


class TorchFunction:
    """Function of a program as a PyTorch operator; `op` is its `torch._ops.OpOverload`. See `to_torch`."""

    def __init__(self, callee: LoadedFunction, name: str, is_internal: bool = False) -> None:
        """Register the operator and, if the function has one, the operator of its derivative.

        Args:
            callee: The function, its derivative, and its versions that compute a batch.
            name: "library::operator".
            is_internal: Whether only another operator calls this one: it is a derivative, or computes a batch. Users
                cannot register a derivative for it.

        Raises:
            InvalidArgumentError: The name is malformed or in use, or PyTorch lacks a type of the function.
        """
        with importing("to_torch", "torch"):
            import torch
        match = _NAME.fullmatch(name)
        if match is None:
            raise InvalidArgumentError(f"name: expected 'library::operator', got {name!r}")
        self._torch = torch
        self._function = function = callee.function
        self._name = name
        self._batches = callee.batches  # compiles versions of a kernel that compute a batch; None for a program
        self.gradient = gradient = callee.gradient
        # The operator that computes the gradients.
        self.rule = None if gradient is None else TorchFunction(gradient.rule, f"{name}_vjp", is_internal=True)
        try:
            users_may_differentiate = gradient is None and not is_internal
            self._register(torch, match, users_may_differentiate)
        except BaseException:
            if self.rule is not None:
                self.rule.close()
            raise
        # Position or name of an argument of rank 0 → its conversion.
        self._rank_0: dict[int | str, Rank0] = rank_0_arguments(torch, function)
        self.op = getattr(getattr(torch.ops, match[1]), match[2]).default

    def _register(self, torch: Any, match: re.Match[str], users_may_differentiate: bool) -> None:
        """Register the operator, unless an operator with the same schema was closed, which is then reused.

        Operators are never unregistered. The kernel of an operator is a C function that calls the function of the
        `Target` with the operator's number. A reused operator keeps its kernel and its number; a new `Target` with this
        number makes it call the new function.

        Args:
            torch: The module torch.
            match: Match of the operator's name: group 1 is the library, group 2 the operator.
            users_may_differentiate: Whether users may register a derivative.

        Raises:
            InvalidArgumentError: The name is in use, was used with another schema, or PyTorch lacks a type of the
                function.
        """
        function, name = self._function, self._name
        with _lock:
            # The kernels of operators call functions of PyTorch: look up their addresses, once in a process.
            library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / _LIBRARY))
            torch_load(lambda symbol: _address(library, symbol))
            # Check that the function can have this name.
            check_types(function, _is_type_supported, "PyTorch")
            if name in _functions:
                raise InvalidArgumentError(
                    f"the operator {name} is registered already, for {_functions[name]!r}; close that function first"
                )
            schema = f"{match[2]}{_schema(function)}"
            known = _operators.get(name)
            if known is not None and known.schema != schema:
                raise InvalidArgumentError(
                    f"the operator {name} was registered in this process with another schema, {known.schema}; choose "
                    f"another name for {function.text()}"
                )
            # Each operator has a C function of its own as its kernel, and a number of its own for its target. A reused
            # operator has both already: the address 0 is not used.
            address, target_number = torch_kernel(len(_operators)) if known is None else (0, known.target_number)
            self._target = Target(function, target_number)
            try:
                if known is None:
                    operator = _define(torch, library, name, schema, address, isinstance(function, Procedure))
                    make_differentiable(torch, name, operator, partial(_backward, name))
                    if users_may_differentiate:
                        let_users_differentiate(torch, name)
                    _operators[name] = _Operator(schema, target_number, operator)
            except BaseException:
                self._target.close()
                raise
            _functions[name] = self

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the operator; Python and NumPy numbers are tensors of rank 0 where it takes these."""
        if not self._rank_0:
            return self.op(*args, **named)
        return self.op(
            *(self._tensor(position, value) for position, value in enumerate(args)),
            **{name: self._tensor(name, value) for name, value in named.items()},
        )

    def _tensor(self, key: int | str, value: Any) -> Any:
        """Return an argument; a number becomes a tensor of rank 0 if the operator takes one.

        `key` is the position or the name of the argument.
        """
        argument = self._rank_0.get(key)
        return value if argument is None else argument.tensor(self._torch, value)

    def __repr__(self) -> str:
        return f"<{self._name}: {self._function.text()} for PyTorch>"

    def close(self) -> None:
        """Release the program, the operator of its derivative, and its versions that compute batches.

        Calls of the operator then fail; `to_torch` can register a function with the same schema.
        """
        self._target.close()
        for other in (self.rule, self._batches):
            if other is not None:
                other.close()
        with _lock:
            if _functions.get(self._name) is self:
                del _functions[self._name]

    def over_batch(self, dims: Sequence[int | None], args: Sequence[Any]) -> Any:
        """Return an operator that computes all elements of a batch in one call; None if there is none.

        The operator has no derivative, so the result is None if an argument needs one. Its batched arguments have the
        elements of the batch along axis 0, whatever `dims` says. Example: for an operator "lib::f" of two arguments,
        the `dims` (1, None) give the operator "lib::f_batch_10".

        Args:
            dims: For each argument its axis that counts the elements of the batch; None if all elements share the
                argument. `torch.vmap` passes them.
            args: The arguments.
        """
        torch = self._torch
        is_differentiated = torch.is_grad_enabled() and any(getattr(arg, "requires_grad", False) for arg in args)
        if self._batches is None or is_differentiated:
            return None
        batched = [dim is not None for dim in dims]
        # Operators for different sets of batched arguments need different names.
        suffix = "".join(str(int(is_batched)) for is_batched in batched)
        operator = self._batches.operator(
            batched,
            lambda function: TorchFunction(LoadedFunction(function), f"{self._name}_batch_{suffix}", is_internal=True),
        )
        return None if operator is None else operator.op

    def _empty_results(self, args: Sequence[Any]) -> list[Any]:
        """Return uninitialized tensors with the shapes and types of the results for `args`.

        Only shapes and types of `args` are read, so they may be tensors without data, and sizes may be symbols of
        PyTorch. A size that depends on data becomes a new symbol.

        Raise InvalidArgumentError if a tensor in `args` has another type or rank than the argument.
        """
        # Check the arguments, and collect what the sizes of results may depend on.
        torch, function = self._torch, self._function
        arguments = []  # shape of each tensor; value of each number, whose `dims` is None
        for i, (value, (_, kind, dims), arg) in enumerate(zip(function.inputs, function.arguments, args, strict=True)):
            if dims is not None and (arg.dtype != getattr(torch, torch_dtype(kind.word)) or arg.dim() != len(dims)):
                raise InvalidArgumentError(
                    f"@{function.name}: argument {i} '{value.name}': expected {value.type}, got {arg.dtype} with "
                    f"{arg.dim()} axes"
                )
            arguments.append(arg if dims is None else arg.shape)
        # Sizes that must be equal are checked by PyTorch, which records the condition if they are symbols.
        shapes = result_shapes(function, self._target, arguments, lambda holds, text: torch._check(holds, lambda: text))
        tensors = [arg for arg, (_, _, dims) in zip(args, function.arguments, strict=True) if dims is not None]
        return [
            torch.empty(
                [torch.library.get_ctx().new_dynamic_size() if n is None else n for n in shape],
                dtype=getattr(torch, torch_dtype(kind.word)),
                device=tensors[0].device if tensors else "cpu",
            )
            for shape, (kind, _) in zip(shapes, function.results, strict=True)
        ]


def _define(torch: Any, library: Any, name: str, schema: str, kernel: int, has_state: bool) -> Any:
    """Register an operator, its kernel and its shape function. Return the library object that keeps it registered.

    Args:
        torch: The module torch.
        library: The C library of PyTorch.
        name: "library::operator".
        schema: Name, parameters and results in PyTorch's syntax, without the library.
        kernel: Address of the C function that PyTorch calls for CPU tensors.
        has_state: Whether calls read or write state, so that their number and order matter.

    Raises:
        InvalidArgumentError: PyTorch refuses the schema or the kernel.
    """
    namespace, _, operator = name.partition("::")
    tags = [torch.Tag.pt2_compliant_tag]
    if has_state:
        tags.append(torch.Tag.nondeterministic_seeded)  # calls are not merged
    try:
        defined = torch.library.Library(namespace, "FRAGMENT")
        defined.define(schema, tags=tags)
    except (RuntimeError, ValueError) as cause:
        raise InvalidArgumentError(f"PyTorch refuses the operator {name}: {cause}") from cause
    torch.library.register_fake(name, lambda *args: _fake_results(name, args), lib=defined)
    # The elements of a batch have no order, but calls with state need one: these have no rule for vmap.
    if not has_state:
        torch.library.register_vmap(name, lambda info, dims, *args: _vmap(torch, name, info, dims, args), lib=defined)
    if has_state:  # PyTorch then neither removes nor reorders calls
        effects = importlib.import_module("torch._higher_order_ops.effects")
        effects._register_effectful_op(name, effects._EffectType.ORDERED)
    registrations = ctypes.c_void_p()  # handle of PyTorch for the kernels of a namespace
    file, line = b"pydispatch", 0  # where PyTorch's messages say that the kernel is registered
    # Both functions return 0 if they succeed.
    error = library.aoti_torch_library_init_impl(namespace.encode(), b"CPU", file, line, ctypes.byref(registrations))
    if not error:
        error = library.aoti_torch_library_impl(registrations, operator.encode(), ctypes.c_void_p(kernel))
    if error:
        raise InvalidArgumentError(f"PyTorch refuses a kernel for the operator {name}; it has printed why")
    return defined


def _backward(name: str, context: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradient of each argument of a call, or None, from the gradients of its results.

    Example: after y = f(x, 2.0), `context.saved_tensors` is (x, y), `context.others` is [None, 2.0, None], and
    `gradients` is (dy,). A derivative with the operands (0, 3), indices into (x, 2.0, y, dy), is called as rule(x, dy).
    With the positions (0,), its result is the gradient of argument 0, and the function returns (dx, None).

    Args:
        name: "library::operator" of the called function.
        context: Context of the call in PyTorch's autograd, as `autograd._save_arguments` fills it. `others` has an
            entry for each argument and then for each result: a number, or None for the next of `saved_tensors`.
        gradients: Gradients of the results, in order.

    Raises:
        InvalidArgumentError: The function was closed or has no derivative.
    """
    function = _functions.get(name)
    if function is None or function.rule is None or function.gradient is None:
        raise InvalidArgumentError(
            f"the operator {name} has no derivative; state one with pydispatch.vjp before pydispatch.to_torch, or with "
            f"torch.library.register_autograd"
        )
    # Restore the values in their order: a None in `others` stands for the next saved tensor.
    tensors = iter(context.saved_tensors)
    # Arguments, results and gradients of the results: the indices in `gradient.operands` count these.
    known = [*(next(tensors) if other is None else other for other in context.others), *gradients]
    computed = function.rule(*(known[operand] for operand in function.gradient.operands))
    gradient_of = dict(
        zip(function.gradient.positions, computed if isinstance(computed, (tuple, list)) else (computed,), strict=True)
    )
    argument_count = len(context.others) - len(gradients)  # `others` has the results too, one for each gradient
    return tuple(gradient_of.get(position) for position in range(argument_count))


def _vmap(torch: Any, name: str, info: Any, dims: Sequence[int | None], args: Sequence[Any]) -> tuple[Any, Any]:
    """Call the operator for a batch, or for each of its elements; return the results and their batch dimensions.

    Args:
        torch: The module torch.
        name: "library::operator".
        info: `info.batch_size` is the number of elements of the batch.
        dims: For each argument its axis that counts the elements of the batch; None if all elements share the argument.
        args: The arguments.

    Returns:
        The results, one tensor or a tuple; and in the same form the axis of each that counts the batch's elements.

    Raises:
        InvalidArgumentError: The function was closed.
    """
    function = _functions.get(name)
    if function is None:
        raise InvalidArgumentError(f"the operator {name} was closed; register it again with pydispatch.to_torch")
    # One call for all elements, if the function has such an operator; it takes the batch along axis 0.
    over_batch = function.over_batch(dims, args)
    if over_batch is not None:
        results = over_batch(
            *(arg if dim is None else arg.movedim(dim, 0) for arg, dim in zip(args, dims, strict=True))
        )
        is_single = not isinstance(results, (tuple, list))
        return results, 0 if is_single else (0,) * len(results)
    if info.batch_size == 0:
        return _results_of_no_elements(function, dims, args)
    # A call for each element, whose results are stacked along a new axis 0.
    results = [
        function.op(*(arg if dim is None else arg.select(dim, i) for arg, dim in zip(args, dims, strict=True)))
        for i in range(info.batch_size)
    ]
    if not isinstance(results[0], (tuple, list)):
        return torch.stack(results), 0
    return tuple(map(torch.stack, zip(*results, strict=True))), (0,) * len(results[0])


def _results_of_no_elements(
    function: TorchFunction, dims: Sequence[int | None], args: Sequence[Any]
) -> tuple[Any, Any]:  # fmt: skip
    """Return the results for a batch without elements, and their batch dimensions.

    No call shows the shapes of the results, which are computed for arguments without data.
    """
    # The arguments of one element of the batch, uninitialized: without the axis of the batch.
    elements = [
        arg if dim is None else arg.new_empty(arg.movedim(dim, 0).shape[1:])
        for arg, dim in zip(args, dims, strict=True)
    ]
    empty = [result.new_empty((0, *result.shape)) for result in function._empty_results(elements)]
    return (empty[0], 0) if len(empty) == 1 else (tuple(empty), (0,) * len(empty))


def _fake_results(name: str, args: Sequence[Any]) -> Any:
    """Return results without data for tracing: tensors of the right shapes and types."""
    function = _functions.get(name)
    if function is None:
        raise InvalidArgumentError(f"the operator {name} was closed; register it again with pydispatch.to_torch")
    results = function._empty_results(args)
    return results[0] if len(results) == 1 else tuple(results)


def _schema(function: PublicFunction) -> str:
    """Return the schema of an operator in PyTorch's syntax, such as "(Tensor x, int arg1) -> Tensor".

    An argument is called `arg` and its index if its name is not unique, or is no name in Python.
    """
    names = [value.name for value in function.inputs]
    arguments = []
    for i, (name, (_, kind, dims)) in enumerate(zip(names, function.arguments, strict=True)):
        type = "Tensor" if dims is not None else torch_scalar_type(kind.word)
        is_name = name.isidentifier() and name.isascii() and not keyword.iskeyword(name)
        is_unique = names.count(name) == 1
        arguments.append(f"{type} {name if is_name and is_unique else f'arg{i}'}")
    results = ", ".join(["Tensor"] * len(function.results))
    if len(function.results) != 1:
        results = f"({results})"
    return f"({', '.join(arguments)}) -> {results}"


def _is_type_supported(kind: ElementType, is_number: bool) -> bool:
    """Return whether PyTorch has an element type: for numbers if `is_number`, else for tensors."""
    return bool(torch_scalar_type(kind.word) if is_number else torch_dtype(kind.word))


def _address(library: Any, symbol: str) -> int:
    """Return the address of a symbol in a library; 0 if it is missing."""
    try:
        return ctypes.cast(library[symbol], ctypes.c_void_p).value or 0
    except AttributeError:
        return 0
