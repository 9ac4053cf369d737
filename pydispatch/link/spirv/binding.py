"""Binds an import of a kernel to a function of a library, for the buffers that a call passes."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.errors import InvalidArgumentError
from pydispatch.formats.spirv.instruction import SpirvFunction
from pydispatch.formats.spirv.names import Decoration, Op, Storage
from pydispatch.formats.spirv.parts import SpirvParts
from pydispatch.link.spirv.library import signature_text, type_text
from pydispatch.link.spirv.output import SpirvOutput, instruction
from pydispatch.link.spirv.take import FunctionCopier, FunctionCopy


class Binding:
    """Resolution of one import, for one set of buffers, to a function of a library.

    A link creates one for each import and set of buffers, and calls `request_copy` once. An import passes each buffer
    with an offset parameter, which counts as a scalar. A library function may use a global buffer variable instead of a
    buffer parameter, but has the offset.

    Attributes:
        kernel: Module that has the import.
        out: Module that linking makes.
        copier: Copier of the library's functions, with the library's module as `parts`.
        function: The import, as the kernel's module declares it.
        symbol: Name of the library function.
        buffers: Ids of the kernel's buffer variables that calls pass, in the order of the import's buffer parameters.
        scalars: Ids, in the kernel, of the types of the import's other parameters, in order.
    """

    def __init__(
        self, kernel: SpirvParts, out: SpirvOutput, copier: FunctionCopier, function: SpirvFunction, symbol: str,
        buffers: tuple[int, ...],
    ) -> None:  # fmt: skip
        """Create the binding of an import. For the parameters, see the attributes of the class."""
        self.kernel, self.out, self.copier = kernel, out, copier
        self.function, self.symbol, self.buffers = function, symbol, buffers
        # Types of the import's parameters that are no buffers.
        self.scalars = [p.type_id for p in function.parameters if not kernel.is_buffer(p.type_id)]

    def request_copy(self) -> int:
        """Request a copy of the library's function; return the id of the output's function that replaces the import.

        Raises InvalidArgumentError if no overload of the library fits the call.
        """
        library, parts = self.copier.library, self.copier.parts
        candidates = library.functions[self.symbol]
        for candidate in candidates:
            matched = self._match(parts.functions[candidate])
            if matched is not None:
                return self._bind_copy(candidate, matched)
        called = signature_text(self.kernel, self.function, self.symbol)
        have = " or ".join(signature_text(parts, parts.functions[id], self.symbol) for id in candidates)
        raise InvalidArgumentError(
            f"the function '{self.symbol}' of {library.name} does not fit its call: the program calls "
            f"{called}, the function is {have}; a buffer may be left out of its parameters, not its offset"
        )

    def _match(self, function: SpirvFunction) -> list[tuple[int, int]] | None:
        """Match a library function's parameters with those of the import.

        Scalars must be the same in both. A buffer of the import may have no parameter in the library function, which
        then accesses it by a global buffer variable.

        Example:
            # Library functions for the import f(a, a_offset, b, b_offset, n), of which a and b are buffers:
            f(a, a_offset, b, b_offset, n)    [(0, 0), (2, 1)]
            f(a_offset, b, b_offset, n)       [(1, 1)]: the first buffer has no parameter
            f(a, a_offset, n)                 None: the offset of b is missing

        Returns:
            Pairs (position of a buffer parameter of the library function, index in `buffers`); None if the signatures
            do not fit.
        """
        matched: list[tuple[int, int]] = []
        types = [parameter.type_id for parameter in function.parameters]  # of the library function
        position = 0  # index in `types` of the next parameter to match
        buffer_index = 0  # index in `buffers` of the import's next buffer
        for parameter in self.function.parameters:
            if self.kernel.is_buffer(parameter.type_id):
                if position < len(types) and self.copier.is_buffer_pointer(types[position]):
                    matched.append((position, buffer_index))
                    position += 1
                buffer_index += 1  # also if the library function has no parameter for the buffer
                continue
            if position == len(types):
                return None
            if not self._is_same_scalar_type(parameter.type_id, self._value_type(types[position])):
                return None
            position += 1
        has_more_parameters = position < len(types)
        has_same_result = self._is_same_scalar_type(self.function.head.type_id, function.head.type_id)
        return matched if has_same_result and not has_more_parameters else None

    def _value_type(self, type_: int) -> int:
        """Return the type of the value passed for a library parameter of type `type_`; both are ids in the library.

        GLSL passes values by pointers to variables of the caller.
        """
        pointee = self.copier.parts.pointee(type_)
        return pointee.type if pointee is not None and pointee.storage == Storage.FUNCTION else type_

    def _is_same_scalar_type(self, own: int, theirs: int) -> bool:
        """Return whether `own`, a type of the kernel, and `theirs`, one of the library, are the same scalar type except
        for the sign of integers.
        """
        # words[2] is the width of an integer or float.
        a, b = self.kernel.globals[own], self.copier.parts.globals[theirs]
        if a.op != b.op or a.op not in (Op.TYPE_VOID, Op.TYPE_BOOL, Op.TYPE_INT, Op.TYPE_FLOAT):
            return False
        return a.op in (Op.TYPE_VOID, Op.TYPE_BOOL) or a.words[2] == b.words[2]

    def _bind_copy(self, candidate: int, matched: Sequence[tuple[int, int]]) -> int:
        """Request a copy of a matching library function for the buffers of the call; return the id of the function in
        the output that replaces the import.

        The copy has no buffer parameters, since it accesses the kernel's variables directly. If the types of its other
        parameters and of its result are those of the import, its own id is returned. Otherwise, for example if the
        import passes u32 and the function takes i32, it is the id of an adapter: a function with the import's types
        that converts its arguments, calls the copy and converts the result.

        Args:
            candidate: Id of the function in the library.
            matched: For each of its buffer parameters the pair (position of the parameter, index of the buffer in
                `buffers`).
        """
        copier, out = self.copier, self.out
        function = copier.parts.functions[candidate]
        # The variables of the output that replace the function's global buffer variables, and its buffer parameters.
        used = self._bound_variables(candidate)
        arguments = [
            (position, self._view(function.parameters[position].type_id, binding)) for position, binding in matched
        ]
        copy = FunctionCopy(candidate, tuple(used), tuple(arguments))
        callee = copier.request(copy)
        type_ = copier.function_type(function, (position for position, _ in arguments))
        # Calls of the import pass its scalars only. Equal types have one representative, so ids of types are compared.
        called_type = out.share(
            Op.TYPE_FUNCTION, [*map(self.out.representative, (self.function.head.type_id, *self.scalars))]
        )
        return callee if type_ == called_type else self._adapter(function, copy, callee, called_type)

    def _bound_variables(self, candidate: int) -> list[tuple[int, int]]:
        """Return pairs (buffer variable that a library function uses, variable of the output that replaces it).

        A global buffer variable of the library denotes the call's buffer whose index is the variable's binding. Raises
        InvalidArgumentError if the call passes no such buffer. candidate: id of the function in the library.
        """
        copier = self.copier
        bound: list[tuple[int, int]] = []
        for variable in copier.buffers_of(candidate):
            binding = copier.parts.tables.decoration(variable, Decoration.BINDING) or 0
            if binding >= len(self.buffers):
                name = copier.parts.tables.names.get(variable, "")
                raise InvalidArgumentError(
                    f"the function '{self.symbol}' of {copier.library.name} uses the buffer '{name}' at binding "
                    f"{binding}; bindings denote the buffers of the call, which passes {len(self.buffers)}"
                )
            bound.append((variable, self._view(variable_type(copier.parts, variable), binding)))
        return bound

    def _view(self, pointer: int, index: int) -> int:
        """Return the output's variable for a buffer of the call, with the block type that the library expects.

        The block is the struct type of a buffer's contents. If the kernel declares a buffer as `float[]` and the
        library as `vec4[]`, the result is a second variable, of type `vec4[]`, with the binding of the kernel's
        variable. If the blocks are equal, it is the kernel's variable.

        Args:
            pointer: Type of the library's parameter or variable, a pointer to the block.
            index: Index of the buffer in `buffers`.

        Raises:
            InvalidArgumentError: The element types may not share memory, such as f32 and u32.
        """
        parts, out, variable = self.copier.parts, self.out, self.buffers[index]
        pointee = parts.pointee(pointer)
        assert pointee is not None
        # The block types, the kernel's as an id of the output and the library's as one of the library; their elements.
        kernel_block, library_block = out.block_type(variable), pointee.type
        kernel_element, library_element = _element(self.kernel, kernel_block), _element(parts, library_block)
        # None: a struct of several members, or with other members than numbers. Such blocks are not compared.
        if not _compatible(kernel_element, library_element):
            raise InvalidArgumentError(
                f"the function '{self.symbol}' of {self.copier.library.name} takes buffer {index} for "
                f"{type_text(parts, library_block)}, the program passes {type_text(self.kernel, kernel_block)}"
            )
        return self.out.view(variable, self.copier.type(library_block))

    def _bitcast(self, code: list[list[int]], value: int, source: int, wanted: int) -> int:
        """Append a bitcast of a value to `code` if its type differs, and return the id of the value or of the bitcast.

        source: id of the value's type. wanted: id, in the output, of the type that is passed.
        """
        if wanted == self.out.representative(source):  # types that are equal in the output have one representative
            return value
        cast = self.out.id()
        code.append(instruction(Op.BITCAST, [wanted, cast, value]))
        return cast

    def _adapter(self, function: SpirvFunction, copy: FunctionCopy, callee: int, type_: int) -> int:
        """Add a function with the import's signature that converts its arguments and calls `callee`; return its id.

        Integers of other sign are bitcast. For a parameter that GLSL passes by pointer, the argument is stored in a
        local variable, whose address is passed.

        Example:
            // For the import `uint f(uint)` and the library function `int f(int *)`:
            uint f(uint n) {
                int v = n;       // OpVariable, OpBitcast, OpStore
                return f(&v);    // OpFunctionCall, OpBitcast, OpReturnValue
            }

        Args:
            function: The library's function.
            copy: Its copy: which of its parameters are bound to buffers, and so not passed.
            callee: Id of the copy in the output.
            type_: Id of the adapter's function type.
        """
        out, copier, adapter = self.out, self.copier, self.out.id()
        # Result types of the import and of the library function, as ids in the output.
        result_type, library_result_type = self.function.head.type_id, copier.type(function.head.type_id)
        lines = [instruction(Op.FUNCTION, [result_type, adapter, 0, type_])]  # 0: no function control
        parameters = [out.id() for _ in self.scalars]
        lines += [instruction(Op.FUNCTION_PARAMETER, list(pair)) for pair in zip(self.scalars, parameters, strict=True)]
        variables: list[list[int]] = []  # OpVariable instructions, which SPIR-V requires at the start of the block
        code: list[list[int]] = []
        # Types of the parameters that are no bound buffers: one for each of `scalars`, as the signatures match.
        bound_positions = {position for position, _ in copy.arguments}
        unbound = [p.type_id for position, p in enumerate(function.parameters) if position not in bound_positions]
        arguments = [
            self._argument(variables, code, value, scalar_type, parameter_type)
            for value, scalar_type, parameter_type in zip(parameters, self.scalars, unbound, strict=True)
        ]
        returned = out.id()
        code.append(instruction(Op.FUNCTION_CALL, [library_result_type, returned, callee, *arguments]))
        code += self._return(returned, library_result_type)
        lines += [instruction(Op.LABEL, [out.id()]), *variables, *code, instruction(Op.FUNCTION_END, [])]
        out.add_function(adapter, lines, calls=(callee,))
        out.names[adapter] = self.symbol
        return adapter

    def _argument(
        self, variables: list[list[int]], code: list[list[int]], value: int, source: int, parameter_type: int
    ) -> int:
        """Append the conversion of an argument of an adapter's call, and return the id that the call passes.

        Args:
            variables: Receives the local variable of a parameter that is passed by pointer.
            code: Receives the other instructions.
            value: Id of the adapter's parameter.
            source: Id of its type.
            parameter_type: Type of the parameter in the library.
        """
        copier = self.copier
        value_type = copier.type(self._value_type(parameter_type))
        value = self._bitcast(code, value, source, value_type)
        if value_type == copier.type(parameter_type):
            return value
        pointer = self.out.id()
        variables.append(instruction(Op.VARIABLE, [copier.type(parameter_type), pointer, Storage.FUNCTION]))
        code.append(instruction(Op.STORE, [pointer, value]))
        return pointer

    def _return(self, value: int, type_: int) -> list[list[int]]:
        """Return the instructions that return a value of the library's result type `type_` in that of the import."""
        result_type = self.function.head.type_id
        if self.kernel.globals[result_type].op == Op.TYPE_VOID:
            return [instruction(Op.RETURN, [])]
        if type_ == self.out.representative(result_type):
            return [instruction(Op.RETURN_VALUE, [value])]
        cast = self.out.id()
        return [instruction(Op.BITCAST, [result_type, cast, value]), instruction(Op.RETURN_VALUE, [cast])]


def variable_type(parts: SpirvParts, id: int) -> int:
    """Return the id of a variable's type, which is a pointer type."""
    return parts.globals[id].type_id


def _element(parts: SpirvParts, block: int) -> tuple[int, int] | None:
    """Return the element type of a buffer block as (opcode of the scalar type, bits).

    None if the struct type `block` is not a single scalar, vector, or array of these.
    """
    inst = parts.globals.get(block)
    # Operands after the result id: a struct's members, the element of an array or vector, the width of a scalar.
    members = inst.words[2:] if inst is not None and inst.op == Op.TYPE_STRUCT else []
    inner = parts.globals.get(members[0]) if len(members) == 1 else None
    # A member `vec4[]` is an array of vectors of floats: the elements of first the array, then the vector.
    if inner is not None and inner.op in (Op.TYPE_ARRAY, Op.TYPE_RUNTIME_ARRAY):
        inner = parts.globals.get(inner.words[2])
    if inner is not None and inner.op == Op.TYPE_VECTOR:
        inner = parts.globals.get(inner.words[2])
    if inner is None or inner.op not in (Op.TYPE_INT, Op.TYPE_FLOAT):
        return None
    return inner.op, inner.words[2]


def _compatible(lhs: tuple[int, int] | None, rhs: tuple[int, int] | None) -> bool:
    """Return whether two scalar types (opcode, bits) may share memory; True if one is None, not known.

    They must have the same width and kind. Below 32 bits the kind is not compared, because kernels store narrow floats
    as integers.
    """
    if lhs is None or rhs is None:
        return True
    (lhs_kind, lhs_bits), (rhs_kind, rhs_bits) = lhs, rhs
    return lhs_bits == rhs_bits and (lhs_kind == rhs_kind or lhs_bits < 32)
