"""Translation of a StableHLO module into a program with its public functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import BlockArgument, Operation

from pydispatch.errors import CompileError
from pydispatch.frontends.mlir.trace import filename_of, is_name, public_functions
from pydispatch.frontends.source import ReadOptions
from pydispatch.frontends.stablehlo.operators import TABLE
from pydispatch.frontends.stablehlo.operators.elementwise import SCALAR_FUNCTIONS
from pydispatch.frontends.stablehlo.sizes import bounds_of_sizes, names_of_sizes
from pydispatch.frontends.stablehlo.tracer import StablehloTracer
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.constants import encoded
from pydispatch.graph.dtypes import dtype_of_numpy
from pydispatch.graph.sizes import symbol
from pydispatch.graph.values import Tensor
from pydispatch.ir.core.locations import NamedLoc, location_of
from pydispatch.ir.core.symbols import references


def translated(module: ModuleOp, options: ReadOptions) -> ModuleOp:
    """Return the program of a module, with the functions that `_entries` selects.

    Weights in `options.bound`, pairs of name and array, replace the leading arguments of the first function.
    """
    b = Builder(filename_of(module), options.weights)
    bound: Sequence[tuple[str, Any]] = options.bound
    for entry in _entries(module):
        tracer = StablehloTracer(b, module, options, TABLE, SCALAR_FUNCTIONS)
        with b.at(entry):
            sizes = names_of_sizes(entry)
            bounds = bounds_of_sizes(entry, sizes)
            inputs = tracer.inputs_of(entry, _argument_names(entry), sizes)
            weights = [_bound(b, *pair) for pair in zip(inputs, bound, strict=False)]
            # `begin` starts a public function and returns its arguments; `finish` names it and its results.
            arguments = b.begin(inputs[len(bound) :], {name: least for name, (least, _) in bounds.items()})
            # Check the lower bounds at run time: n >= least if n - least + 1 is positive.
            for name, (least, message) in bounds.items():
                b.require_positive(symbol(name, least) - least + 1, message)
            results = tracer.results_of(entry, [*weights, *arguments])
            bound = ()  # weights are for the first function only
            names = _result_names(entry, len(results))
            b.finish(entry.sym_name.data, dict(zip(names, results, strict=True)))
    return b.module


def _entries(module: ModuleOp) -> list[func.FuncOp]:
    """Return the functions that callers can call: `main`, and public functions that the module does not refer to;
    without `main`, all public functions.

    Older exporters do not mark the functions that `main` calls as private. Raise CompileError if there is no public
    function.
    """
    public = public_functions(module)
    if not public:
        raise CompileError("a StableHLO program has a public function; this one has none", location_of(module),
                           "make the function that is called public: func.func @main")  # fmt: skip
    main = [op for op in public if op.sym_name.data == "main"]
    if not main:
        return public
    # All symbols that `main` and the other operations of the module refer to.
    called = {name for op in module.ops if op not in main for name in references(op)} | set(references(main[0]))
    return main + [op for op in public if op not in main and op.sym_name.data not in called]


def _bound(builder: Builder, expected: Input, weight: tuple[str, Any]) -> Tensor:
    """Return the tensor of a weight, (name, array), that replaces an argument, in the argument's type.

    JAX converts arrays alike: without 64-bit types, an f64 array is an f32 argument. Raise CompileError if the shapes
    differ.
    """
    name, array = weight
    if array.shape != expected.shape:
        raise builder.fail(f"the parameter '{name}' has shape {list(array.shape)}, its argument {list(expected.shape)}")
    # `encoded` converts the numbers to the type of the argument.
    has_type = dtype_of_numpy(array) is expected.dtype
    numbers = array.view(expected.dtype.numpy) if has_type else encoded(array, expected.dtype)
    return builder.weight(name, numbers, expected.dtype)


def _argument_names(entry: func.FuncOp) -> list[str]:
    """Return distinct names of the arguments, in order: `arg0`, `arg1` and so on for equal or missing names."""
    names = [_name(argument, index) for index, argument in enumerate(entry.body.blocks[0].args)]
    return [name if names.count(name) == 1 else f"arg{index}" for index, name in enumerate(names)]


def _name(argument: BlockArgument, index: int) -> str:
    """Return the name of an argument from its location (in JAX `x`, or `params['w']`, which becomes params_w), or its
    SSA name.

    If `main` only forwards arguments to another function, as in exported programs, that function has the names.
    """
    # For each use as an operand of a call the callee's argument; None for other uses.
    forwarded = (_passed_to(use.operation, use.index) for use in argument.uses)
    locations = (a.location for a in chain((argument,), forwarded) if a is not None)
    text = next((at.text for at in locations if isinstance(at, NamedLoc)), argument.name_hint or "")
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if is_name(name) else f"arg{index}"


def _passed_to(op: Operation, index: int) -> BlockArgument | None:
    """Return the argument of the callee to which operand `index` of a call is passed; None for other operations."""
    if not isinstance(op, func.CallOp):
        return None
    module = op.parent_op().parent_op()  # type: ignore[union-attr]
    callees = module.ops if isinstance(module, ModuleOp) else ()
    name = op.callee.root_reference.data
    block = next((f.body.blocks.first for f in callees if isinstance(f, func.FuncOp) and f.sym_name.data == name), None)
    return block.args[index] if block is not None and index < len(block.args) else None


def _result_names(entry: func.FuncOp, count: int) -> list[str]:
    """Return the names of the `count` results if they are distinct, else `result0`, `result1` and so on.

    JAX's attributes have the path of a result in the returned value, such as `['loss']` or `result[0].loss`: the last
    key is the name. A path without a key gives `result` and the index.
    """
    attributes = list(entry.res_attrs or ())
    names = []
    for index in range(count):
        info = attributes[index].data.get("jax.result_info") if index < len(attributes) and isinstance(
            attributes[index], DictionaryAttr) else None  # fmt: skip
        text = info.data if isinstance(info, StringAttr) else ""
        # The last key of the path is in one of the two groups; the other is None.
        key = re.search(r"\['(\w+)'\]$|\.(\w+)$", text)
        names.append(next(filter(None, key.groups()), "") if key else f"result{index}")
    return names if len(set(names)) == count else [f"result{n}" for n in range(count)]
