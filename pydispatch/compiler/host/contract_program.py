"""Contracts of all variants as one host program: `contracts.bin` of an artifact (docs/artifact.md).

A contract is a function of a dispatch's scalars that checks sizes, and returns the grid and how the kernel accesses its
bindings.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import cf, func
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute

from pydispatch.compiler.host.exports import add_scalar_result
from pydispatch.compiler.host.scalars import Registers, ScalarLowering
from pydispatch.compiler.kernel_ir.words import bit_width, words_of
from pydispatch.compiler.outline.contracts import CONTRACT, SUFFIX, WRITTEN
from pydispatch.compiler.target.variants import ordinals_of, variants_of
from pydispatch.errors import InternalError
from pydispatch.formats.program.program import FunctionArgument, Numerical, Opcode, Program, ProgramFunction, dtype_word
from pydispatch.ir.dialects.hal import dialect as hal

ContractIndices = dict[tuple[str, str], list[int | None]]
"""For each (executable, variant), the index of the contract function of each export, by ordinal."""


def contract_program(module: ModuleOp) -> tuple[bytes, ContractIndices]:
    """Return the encoded program of all contracts, empty if there are none, and the index of each contract in it.

    A contract is the function of a dispatch's scalars that checks sizes, and returns the grid and how the kernel
    accesses its bindings. Equal contracts share one function. The indices of a variant are listed by export ordinal,
    None for an export without a contract; a variant without contracts has no entry.

    If the variant @cpu of @ex has the exports @add and @mul with the ordinals 0 and 1, and the function @mul.contract,
    the indices are {("ex", "cpu"): [None, 0]}.
    """
    program = Program()
    indices_of_variant: ContractIndices = {}
    known: dict[Any, int] = {}  # code of a contract → index of its function
    for executable in module.body.block.ops:
        if not isinstance(executable, hal.ExecutableOp):
            continue
        for variant in variants_of(executable):
            stated = {  # name of an export → its contract
                op.sym_name.data.removesuffix(SUFFIX): op
                for op in variant.body.block.ops
                if isinstance(op, func.FuncOp) and CONTRACT in op.attributes
            }
            if not stated:
                continue
            # The contracts of the variant by export ordinal.
            ordinals = ordinals_of(variant)
            indices: list[int | None] = [None] * len(ordinals)
            for name, op in stated.items():
                indices[ordinals[name]] = _add_contract(program, op, known)
            indices_of_variant[executable.sym_name.data, variant.sym_name.data] = indices
    return program.encode() if program.functions else b"", indices_of_variant


def _add_contract(program: Program, op: func.FuncOp, known: dict[Any, int]) -> int:
    """Lower a contract to a function of the program, unless an equal one exists; return the function's index.

    A contract checks the sizes that a kernel relies on, and returns its grid.

    known: code of a contract → index of its function; the new one is added.
    """
    function = program.add_function(op.sym_name.data, public=False)
    _lower(function, op)
    # Contracts are equal if their functions have the same code, arguments and results; names may differ.
    key = (tuple(function.instructions), tuple(function.pool), len(function.arguments),
           tuple(r.register for r in function.results))  # fmt: skip
    own_index = len(program.functions) - 1
    index = known.setdefault(key, own_index)
    if index != own_index:  # drop the function that was just added
        program.functions.pop()
    return index


def _lower(function: ProgramFunction, op: func.FuncOp) -> None:
    """Lower a contract into a function of the program, whose arguments are the 32-bit words of the contract's scalars.

    A contract is a function that computes, from the scalars of a dispatch, the kernel's grid and how many bytes of its
    bindings the kernel accesses. A contract with the arguments (%n: index, %k: i8) becomes a function of three
    arguments: the low and the high word of %n, and the word of %k. Assertions become checks. The results are:

    - grid_x, grid_y, grid_z: the grid in workgroups
    - a bit mask of the bindings that the kernel writes: an attribute of the contract, not one of its results
    - for each binding, the number of bytes that the kernel needs
    - if known, for each binding, the number of bytes that a workgroup accesses

    Raises InternalError for an operation that is no host code.
    """
    registers: Registers = {}
    for argument in op.body.block.args:
        # Each word is passed zero-extended to 64 bits, the width of registers.
        words = [function.add_argument(FunctionArgument(dtype_word(Numerical.INTEGER, 64), dims=None))
                 for _ in range(words_of(argument.type))]  # fmt: skip
        if argument.uses:  # an unused one has its words as arguments, too, but needs no register
            registers[argument] = _joined_argument(function, words, argument.type)
    lowering = ScalarLowering(function)
    for inner in op.body.block.ops:
        if isinstance(inner, cf.AssertOp):
            function.check(registers[inner.arg], inner.msg.data)
        elif isinstance(inner, func.ReturnOp):
            written = op.attributes[WRITTEN]
            assert isinstance(written, IntegerAttr)
            grid_x, grid_y, grid_z, *sizes = [registers[v] for v in inner.operands]
            written_bindings = function.constant(written.value.data)  # a bit for each binding
            for register in (grid_x, grid_y, grid_z, written_bindings, *sizes):
                add_scalar_result(function, register)
        elif not lowering.lower(inner, registers):
            raise InternalError(f"the contract of @{op.sym_name.data} has '{inner.name}', which is no host code")


def _joined_argument(function: ProgramFunction, words: list[int], type: Attribute) -> int:
    """Return the register of a scalar argument that is passed as one or two zero-extended 32-bit words.

    Args:
        function: The function that receives the code.
        words: Indices of the arguments that hold the words, low word first.
        type: Type of the scalar. Integers narrower than 64 bits are sign-extended, as in all registers.
    """
    low = function.scalar_argument(words[0])
    if len(words) == 2:
        high = function.binary(Opcode.SHL, function.scalar_argument(words[1]), function.constant(32))
        return function.binary(Opcode.OR, low, high)
    bits = bit_width(type)
    if isinstance(type, IntegerType) and bits is not None and bits < 64:
        return function.unary(Opcode.SEXT, low, width=bits)
    return low
