"""Private functions of a module whose results become constants."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.constants.relay import Matrix
from pydispatch.compiler.flatten.inline import DERIVED
from pydispatch.compiler.outline.equal import structural_key
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.dialects.flow import tensors
from pydispatch.ir.dialects.pyd.derived import DerivedAttr
from pydispatch.ir.dialects.util import dialect as util
from pydispatch.ir.functions import FUNCTIONS, symbol_name


@dataclass
class DerivedFunctions:
    """Builder of the functions of a module that compute derived constants; equal functions are added once.

    A derived constant is a tensor that depends on constants alone, such as transposed weights. It is computed when the
    program is loaded, by a private function without arguments. Host functions read it as an ordinary constant with the
    value `#pyd.derived<"derived_0", 0>`: result 0 of the function `derived_0` (see `constant_of`).

    The pipeline creates one builder per module. Passes call `add` for a function, then `constant_of` for its results.

    Attributes:
        module: The module that gets the functions.
        added: Name → added function.
        transposed: Name of an added function that only transposes a constant matrix → that matrix, not transposed.
            Callers of `add` fill it; packing then reads this matrix instead of its transpose.
        _known: Structural key of an added function → its name.
        _names: Names of all functions of the module.
    """

    module: ModuleOp
    added: dict[str, Operation] = field(default_factory=dict)
    transposed: dict[str, Matrix] = field(default_factory=dict)
    _known: dict[Hashable, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Collect the names of the functions in the module, so that added functions get other names."""
        self._names = {symbol_name(op) for op in self.module.body.block.ops if op.name in FUNCTIONS}

    def add(self, ops: Sequence[Operation], values: Sequence[SSAValue]) -> str:
        """Add a function that computes derived constants, values that depend on constants alone, when the program is
        loaded: it consists of `ops` and returns `values`. Return its name, or that of an equal function that exists.

        Args:
            ops: Operations that belong to no block yet, at least one, producers first. The function takes them over.
            values: The results of `ops` that the function returns.
        """
        body = Block([*ops, util.ReturnOp(operands=[list(values)])])
        function = util.FuncOp(
            properties={
                "sym_name": StringAttr("derived"), "sym_visibility": StringAttr("private"),  # the name is chosen below
                "function_type": FunctionType.from_lists([], [v.type for v in values]),
            },
            attributes={DERIVED: UnitAttr()},
            regions=[Region(body)],
        )  # fmt: skip
        set_location(function, ops[-1])
        key = structural_key(function)  # ignores names: equal functions have equal keys
        if key not in self._known:
            name = self._known[key] = self._new_name()
            self.added[name] = function
            function.properties["sym_name"] = StringAttr(name)
            self.module.body.block.add_op(function)
        return self._known[key]

    def _new_name(self) -> str:
        """Return a name that no function of the module has, such as "derived_0", and reserve it."""
        suffix = len(self._known)
        while f"derived_{suffix}" in self._names:
            suffix += 1
        name = f"derived_{suffix}"
        self._names.add(name)
        return name


def constant_of(name: str, result: int, value: OpResult, type_: TensorType[Attribute]) -> tensors.TensorConstantOp:
    """Insert a constant of type `type_` before the operation that defines `value`, and return it.

    Its elements are the result with index `result` of the function `name`, which the runtime calls once, before the
    first call that needs the constant. The caller replaces `value` by the constant.
    """
    constant = tensors.TensorConstantOp(result_types=[type_], properties={"value": DerivedAttr.of(name, result, type_)})
    set_location(constant, value.op)
    constant.results[0].name_hint = value.name_hint
    block = value.op.parent
    assert block is not None
    block.insert_op_before(constant, value.op)
    return constant
