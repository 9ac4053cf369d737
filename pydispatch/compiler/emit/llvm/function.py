"""Emission of one LLVM function: its values, blocks and memory accesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.compiler.emit.llvm.alias_scopes import AliasScopes, ProductRole
from pydispatch.compiler.emit.llvm.body import Body, Phi, as_index
from pydispatch.compiler.emit.llvm.line_table import LineTable
from pydispatch.compiler.emit.llvm.module import ModuleWriter
from pydispatch.compiler.emit.llvm.platform import Platform
from pydispatch.compiler.emit.llvm.values import Index, MemRef, Value, components, flatten, unflatten
from pydispatch.compiler.kernel_ir.bindings import bindings_of
from pydispatch.compiler.kernel_ir.kernel import MARKS_LINES
from pydispatch.compiler.kernel_ir.readers import LEAVES, attribute, op_name, quoted, reverse_post_order, unsupported
from pydispatch.compiler.kernel_ir.scan import ops_by_name
from pydispatch.compiler.kernel_ir.stack import MAX_STACK_BYTES
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

Lowering = Callable[["FunctionEmitter", Operation], None]
"""Function that emits the code of an operation."""
Leave = Callable[[Operation], None]
"""Function that emits the code at the end of a region, from the region's terminator."""


class FunctionEmitter:
    """Emitter of one LLVM function: an export, which is called once per workgroup, or a helper.

    `emit_module` creates an emitter for each function, and calls `run` once. That calls a lowering for each operation:
    it reads operands with `get`, `index` and `memref`, appends instructions to `body`, and `define`s results.

    Attributes:
        module: The module that the function belongs to.
        platform: The target.
        function: The function in kernel IR.
        exported: Whether it is an export.
        body: Its instructions.
        values: Kernel IR value -> LLVM value.
        groups: Metadata nodes of the access groups of the parallel loops around the current block.
        op: The operation that is being lowered, which errors name.
        bindings: Facts about the bindings that the function uses.
        narrow_indices: Whether indices are below 2^31 and the platform divides 32-bit integers faster than 64-bit ones.
    """

    def __init__(
        self, module: ModuleWriter, platform: Platform[FunctionEmitter], function: FuncOp, exported: bool
    ) -> None:
        """Begin the function, which has no instructions yet.

        Args:
            module: Writer of the LLVM module: its functions, globals and metadata.
            platform: The target.
            function: The function in kernel IR. With the attribute `MARKS_LINES`, its instructions get debug locations.
            exported: Whether it is an export, which the runtime calls; a helper is called by kernels only.
        """
        self.module = module
        self.platform = platform
        self.function = function
        self.exported = exported
        self.name = function.sym_name.data
        self.body = Body()
        self.values: dict[SSAValue, Value] = {}  # kernel IR value → its LLVM value
        # Metadata nodes of the access groups of the parallel loops around the current block.
        self.groups: list[int] = []
        self.op: Operation = function
        self._stack_bytes = 0
        self._cache: dict[object, str] = {}  # texts that `once` returned, by key
        self._labels: dict[Block, str] = {}  # labels of blocks that were branched to or begun
        # Block → (label of a predecessor, values it passes), until the block is begun.
        self._edges: dict[Block, list[tuple[str, list[str]]]] = {}
        self._alias_scopes = AliasScopes(module)
        self._lines = LineTable(module, function) if MARKS_LINES in function.attributes else None
        self.bindings = bindings_of(ops_by_name(function))
        # The attribute states how many bits hold every index of the function as a signed integer. With 32, indices are
        # below 2^31.
        width = attribute(function, "pyd.index_width")
        has_narrow_indices = isinstance(width, IntegerAttr) and width.value.data <= 32
        self.narrow_indices = self.platform.divides_in_words and has_narrow_indices

    # Values

    def get(self, value: SSAValue) -> str:
        """Return the LLVM operand of a scalar."""
        operand = self.values[value]
        if isinstance(operand, MemRef):
            raise unsupported(self.op)
        return operand

    def index(self, value: SSAValue) -> Index:
        """Return the LLVM operand of an index; an int if it is known."""
        return as_index(self.get(value))

    def memref(self, value: SSAValue) -> MemRef:
        """Return the descriptor of a memref."""
        descriptor = self.values[value]
        if not isinstance(descriptor, MemRef):
            raise unsupported(self.op)
        return descriptor

    def define(self, value: SSAValue, operand: Value) -> None:
        """Set the LLVM value of a kernel IR value."""
        self.values[value] = operand

    def once(self, key: object, make: Callable[[], str]) -> str:
        """Return the text cached as `key` in this function; on a miss, call `make`, which emits the value, for it.

        The text must be valid in all blocks: it names a value of the entry block, or is the number of a metadata node.
        """
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def intrinsic(self, name: str, result: str, *arguments: tuple[str, str], flags: str = "") -> str:
        """Emit a call of an LLVM intrinsic or a C function of the device library, and return its result.

        Args:
            name: The symbol.
            result: LLVM type of the result.
            *arguments: (LLVM type, operand) of each argument.
            flags: Fast-math flags, each followed by a space.
        """
        is_intrinsic = name.startswith("llvm.")
        if is_intrinsic and not self.platform.knows(name):
            raise self.error(
                f"operation '{op_name(self.op)}' cannot be compiled into a kernel for this target ({name})",
                "LLVM has no code for it: use another width, or another operation",
            )
        types = ", ".join(type_ for type_, _ in arguments)
        visibility = "" if is_intrinsic else "hidden "  # C functions are linked into the same library
        self.module.declare(name, f"declare {visibility}{result} @{quoted(name)}({types})")
        operands = ", ".join(f"{type_} {operand}" for type_, operand in arguments)
        return self.body.let(f"call {flags}{result} @{quoted(name)}({operands})")

    def error(self, message: str, note: str | None = None) -> CompileError:
        """Return an error at the operation that is being lowered."""
        return CompileError(message, location_of(self.op), note)

    # Storage

    def alloca(self, type_: str, byte_size: int, align: int) -> str:
        """Allocate `byte_size` bytes of stack memory, of LLVM type `type_`, in the entry block, and return its address.

        `align` is in bytes.

        Raises:
            CompileError: The function needs more than MAX_STACK_BYTES.
        """
        self._stack_bytes += byte_size
        if self._stack_bytes > MAX_STACK_BYTES:
            raise self.error(
                f"function '{self.name}' needs {self._stack_bytes} bytes of stack, the limit is {MAX_STACK_BYTES}",
                "use workgroup memory (memref.alloc with #gpu.address_space<workgroup>) or another binding",
            )
        return self.body.let_entry(f"alloca {type_}, align {align}", "a")

    def access_metadata(self, memref: MemRef, shared: bool = False, role: ProductRole = ProductRole.UNRELATED) -> str:
        """Return the metadata of a load or store of `memref`, as text that is appended to the instruction.

        An access to a read-only binding in a parallel loop has all of it:

            , !alias.scope !4, !noalias !5, !invariant.load !6, !llvm.access.group !7

        The first two nodes state which storages (`MemRef.root`) the access does not overlap: distinct bindings never
        overlap. The access groups are those of the parallel loops around the access, whose iterations are independent.
        Stack memory, which all iterations use, and a memref of unknown origin, which may be on the stack, get no
        metadata.

        Args:
            memref: The accessed memory.
            shared: Whether other iterations of a parallel loop may access the same byte; then no access group is named.
            role: For accesses of a matrix product, after `begin_product`: whether the memref has the sums or is a
                factor. Factors are declared not to overlap the sums.
        """
        if memref.root is None or memref.root == "stack":
            return ""
        lists = self._alias_scopes.lists(memref.root, role)
        text = f", !alias.scope !{lists.own}, !noalias !{lists.others}"
        if memref.read_only:
            text += f", !invariant.load !{self.once('empty', lambda: str(self.module.metadata('!{}')))}"
        if shared:
            return text
        if len(self.groups) == 1:
            text += f", !llvm.access.group !{self.groups[0]}"
        elif self.groups:
            node = "!{" + ", ".join(f"!{group}" for group in self.groups) + "}"
            text += f", !llvm.access.group !{self.once(node, lambda: str(self.module.metadata(node)))}"
        return text

    def begin_product(self) -> None:
        """Begin a matrix product (`pyd.contract`): declare the alias scope of its register block at this place.

        Accesses of the product, which follow, name the scope if they pass their role to `access_metadata`.
        """
        name, scopes = "llvm.experimental.noalias.scope.decl", self._alias_scopes.begin_product()
        self.module.declare(name, f"declare void @{name}(metadata)")
        self.body.emit(f"call void @{name}(metadata !{scopes})")

    # The function

    def run(self) -> str:
        """Emit the whole function, and return it as text, from its `define` line to the closing brace."""
        # The parameters of a helper: those of the platform, then one for each scalar argument, several for a memref.
        # An export has no arguments: `export_header` states the parameters that the runtime passes to it.
        parameters = list(self.platform.parameters)
        entry = self.function.body.blocks[0]
        for position, argument in enumerate(entry.args):
            types = components(argument.type)
            names = [f"%arg{position}.{part}" for part in range(len(types))]
            parameters += [f"{type_} {name}" for type_, name in zip(types, names, strict=True)]
            self.define(argument, unflatten(names, argument.type))
        # The body. Its lowerings also append to the entry block, so that the entry's branch to the body is added last.
        self.body.start("start")
        self.region(self.function.body, self._leave_function)
        self.body.entry.append("  br label %start")
        self._alias_scopes.close()
        if self.exported:
            header = self.platform.export_header(self.name)
        else:
            result, parameter_list = self.return_type(self.name), ", ".join(parameters)
            header = f"define internal {result} @{helper_symbol(self.name)}({parameter_list}) #0"
        debug = f" !dbg !{self._lines.subprogram}" if self._lines else ""
        return f"{header}{debug} {{\n{self.body.text()}\n}}\n"

    def returned_types(self, name: str) -> list[str]:
        """Return the LLVM types of all values that a helper returns: a status if it may fail, then its results.

        A result that is a memref is several values: pointers and dynamic sizes.
        """
        types = ["i32"] if self.module.fallible(name) else []
        for type_ in self.module.functions[name].function_type.outputs.data:
            types += components(type_)
        return types

    def return_type(self, name: str) -> str:
        """Return the one LLVM type that a helper returns: void, a scalar, or a structure of its `returned_types`."""
        types = self.returned_types(name)
        if len(types) > 1:
            return "{ " + ", ".join(types) + " }"
        return types[0] if types else "void"

    def _leave_function(self, op: Operation) -> None:
        """Emit the return of the function."""
        if self.exported:
            self.platform.export_return(self, status=None)
            return  # exports have no results
        operands = ["0"] if self.module.fallible(self.name) else []  # the status of success, which is returned first
        self._return(operands + self.llvm_operands(op.operands))

    def fail(self, status: str) -> None:
        """Emit a return from the function with a non-zero status, the name of an i32; its results are poison."""
        if self.exported:
            self.platform.export_return(self, status)
        else:
            _, *result_types = self.returned_types(self.name)  # the status is first
            self._return([status, *("poison" for _ in result_types)])

    def _return(self, operands: list[str]) -> None:
        """Emit a return of operands, one for each of `returned_types`; several become a structure."""
        types, return_type = self.returned_types(self.name), self.return_type(self.name)
        if not types:
            self.body.emit("ret void")
        elif len(types) == 1:
            self.body.emit(f"ret {return_type} {operands[0]}")
        else:
            structure = "poison"
            for position, (type_, operand) in enumerate(zip(types, operands, strict=True)):
                structure = self.body.let(f"insertvalue {return_type} {structure}, {type_} {operand}, {position}")
            self.body.emit(f"ret {return_type} {structure}")

    # Blocks

    def region(self, region: Region, leave: Leave) -> None:
        """Emit the blocks of a region, each after the blocks that dominate it.

        The caller has begun the entry block and defined its arguments. The arguments of the other blocks become phis. A
        branch inside of the region (`cf.br ^bb2(%x)`) records an edge with `target`; the edges become the incoming
        values of the phis after all blocks are emitted.

        Args:
            region: The region.
            leave: Emits what a terminator that leaves the region (yield, return) does.

        Raises:
            CompileError: A branch leads back to the entry block, which has no phis.
        """
        blocks = list(reverse_post_order(region.blocks[0]))
        for block in blocks[1:]:
            self._labels[block] = self.body.new_label("bb")
        phis: dict[Block, list[Phi]] = {}
        if region.blocks[0] in self._successors(blocks):
            raise unsupported(region.blocks[0].ops.first or self.op)
        for block in blocks:
            if block is not blocks[0]:
                self.body.start(self._labels[block])
                phis[block] = self.phis_for(block.args)
            self._block(block, leave)
        for block, block_phis in phis.items():  # all edges are known only now: some branch to earlier blocks
            for label, operands in self._edges.pop(block, []):
                for phi, operand in zip(block_phis, operands, strict=True):
                    phi.incoming.append((operand, label))

    @staticmethod
    def _successors(blocks: Sequence[Block]) -> frozenset[Block]:
        """Return the blocks that the terminators of `blocks` branch to."""
        return frozenset(successor for block in blocks if block.last_op for successor in block.last_op.successors)

    def phis_for(self, values: Sequence[SSAValue]) -> list[Phi]:
        """Emit phis in the current block that define `values`, and return the phis: several for a memref.

        `add_edge` adds their incoming values.
        """
        phis: list[Phi] = []
        for value in values:
            value_phis = [self.body.phi(type_) for type_ in components(value.type)]
            phis += value_phis
            self.define(value, unflatten([phi.name for phi in value_phis], value.type))
        return phis

    def llvm_operands(self, values: Sequence[SSAValue]) -> list[str]:
        """Return the LLVM operands of all values in order; a memref has several: pointers and dynamic sizes."""
        return [part for value in values for part in flatten(self.values[value], value.type)]

    def add_edge(self, phis: Sequence[Phi], operands: Sequence[SSAValue]) -> None:
        """Add an edge from the current block to the block of `phis`; `operands` are the incoming values."""
        for phi, operand in zip(phis, self.llvm_operands(operands), strict=True):
            phi.incoming.append((operand, self.body.label))

    def target(self, block: Block, operands: Sequence[SSAValue]) -> str:
        """Record an edge from the current block to `block` with these arguments, and return the label of the block."""
        self._edges.setdefault(block, []).append((self.body.label, self.llvm_operands(operands)))
        return self._labels[block]

    def _block(self, block: Block, leave: Leave) -> None:
        """Emit the operations of a block; `leave` emits its terminator if that leaves the region (yield, return).

        An error without a location gets that of the operation.
        """
        for op in block.ops:
            self.op = op
            name = op_name(op)
            try:
                if name in LEAVES:
                    leave(op)
                    return
                lowering = self.module.lowerings.get(name)
                if lowering is None:
                    raise unsupported(op)
                start = len(self.body.lines)  # lines from here on belong to `op`
                lowering(self, op)
                if self._lines is not None:
                    self._lines.mark(self.body.lines, start, op)
            except CompileError as error:
                if error.location is None and location_of(op) is not None:
                    raise CompileError(error.message, location_of(op), error.note) from None
                raise


def export_symbol(name: str) -> str:
    """Return the symbol of an export's function, unquoted. The dot keeps it distinct from every identifier of C."""
    return f"{name}.export"


def helper_symbol(name: str) -> str:
    """Return the LLVM symbol of a helper, a function that kernels call, in quotes."""
    return quoted(f"{name}.helper")
