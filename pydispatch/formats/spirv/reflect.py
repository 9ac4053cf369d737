"""Reflection: the resources that a dispatch of a SPIR-V module's entry points must provide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydispatch.errors import ArtifactError
from pydispatch.formats.spirv.module import EntryPointRecord, SpirvTables, read
from pydispatch.formats.spirv.names import (
    GL_COMPUTE,
    LOCAL_SIZE,
    LOCAL_SIZE_ID,
    MODELS,
    BuiltIn,
    Decoration,
    Op,
    Storage,
    capability_name,
)
from pydispatch.formats.spirv.usage import use_of

_MAX_TYPE_DEPTH = 32  # levels of types inside types, such as arrays of structs: their sizes are computed recursively
_MAX_BYTES = 1 << 63
"""Bound of the size of a type in bytes: from this size on, a type is refused, because its size does not fit into a
signed integer of 64 bits."""
_LINKAGE_EXPORT, _LINKAGE_IMPORT = 0, 1  # kinds of the decoration LinkageAttributes


@dataclass(frozen=True)
class Resource:
    """Variable of a SPIR-V module that is bound through a descriptor, such as a storage buffer.

    Attributes:
        name: Name of the variable or of its type; may be empty.
        set: Descriptor set.
        binding: Binding in the set.
        kind: "storage_buffer", "uniform_buffer" or "other".
        read_only: Whether the shader declares it as read-only.
        written: Whether the shader's code may write it.
    """

    name: str
    set: int
    binding: int
    kind: str
    read_only: bool
    written: bool


@dataclass(frozen=True)
class SpecConstant:
    """Specialization constant of a SPIR-V module.

    Attributes:
        id: SpecId.
        name: Name; may be empty.
        bytes: Size of the value in bytes.
        default: Bits of the default value as an unsigned integer, also for a float; a bool is 0 or 1.
    """

    id: int
    name: str
    bytes: int
    default: int


@dataclass(frozen=True)
class EntryPoint:
    """Compute shader of a SPIR-V module, with what a dispatch of it must provide.

    Attributes:
        name: Name of the entry point.
        workgroup_size: Workgroup size (x, y, z), with the default of a size that is a specialization constant; None if
            the module states none.
        size_spec: SpecId of the specialization constant of each of these sizes; None for a fixed size.
        resources: Buffers and other resources, sorted by set and binding.
        push_constant_bytes: Size of the push constant block in bytes.
        shared_bytes: Workgroup memory in bytes.
        uses_grid_size: Whether it reads NumWorkgroups.
        one_subgroup: Whether it assumes that a workgroup is one subgroup: it uses subgroup operations, but neither
            workgroup memory, through which several subgroups could combine their values, nor subgroup ids.
    """

    name: str
    workgroup_size: tuple[int, int, int] | None
    size_spec: tuple[int | None, int | None, int | None]
    resources: tuple[Resource, ...]
    push_constant_bytes: int
    shared_bytes: int
    uses_grid_size: bool
    one_subgroup: bool


@dataclass(frozen=True)
class Reflection:
    """Resources and requirements of a SPIR-V module, as reflection returns them.

    Attributes:
        version: SPIR-V version (major, minor).
        capabilities: Capabilities by name.
        extensions: Extensions by name.
        entry_points: Compute shaders.
        spec_constants: Specialization constants, sorted by SpecId.
        others: Other entry points as (name, execution model).
        exports: Names of exported functions.
        imports: Names of imported functions.
    """

    version: tuple[int, int]
    capabilities: tuple[str, ...]
    extensions: tuple[str, ...]
    entry_points: tuple[EntryPoint, ...]
    spec_constants: tuple[SpecConstant, ...]
    others: tuple[tuple[str, str], ...] = ()
    exports: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    def entry_point(self, name: str) -> EntryPoint | None:
        """Return the entry point `name`; None if the module has no such entry point."""
        return next((entry for entry in self.entry_points if entry.name == name), None)


def reflect(data: bytes | bytearray | memoryview, what: str = "SPIR-V") -> Reflection:
    """Return the resources and requirements of a module; raise ArtifactError if it is broken. `what` names it in
    messages."""
    tables = read(data, what)
    walker = _Walker(tables)
    compute = [entry for entry in tables.entry_points if entry.model == GL_COMPUTE]
    others = [entry for entry in tables.entry_points if entry.model != GL_COMPUTE]
    return Reflection(
        version=tables.version,
        capabilities=tuple(dict.fromkeys(capability_name(capability) for capability in tables.capabilities)),
        extensions=tuple(dict.fromkeys(tables.extensions)),
        entry_points=tuple(walker.entry(entry) for entry in compute),
        spec_constants=walker.spec_constants(),
        others=tuple((entry.name, MODELS.get(entry.model, str(entry.model))) for entry in others),
        exports=tuple(name for name, kind in tables.linkage.values() if kind == _LINKAGE_EXPORT),
        imports=tuple(name for name, kind in tables.linkage.values() if kind == _LINKAGE_IMPORT),
    )


class _Walker:
    """Collector of the resources that a dispatch of a SPIR-V module's entry points must provide, such as buffers.

    `entry` is called for each entry point, and `spec_constants` once; the order is free.

    Attributes:
        tables: The module.
        what: Name of the module in messages.
        sizes: Known sizes in bytes by (type id, whether its layout decorations apply).
    """

    def __init__(self, tables: SpirvTables) -> None:
        """Create a collector that knows no sizes yet."""
        self.tables, self.what = tables, tables.what
        self.sizes: dict[tuple[int, bool], int] = {}

    def entry(self, record: EntryPointRecord) -> EntryPoint:
        """Return the entry point of a compute shader with the resources that it needs.

        They are those of the variables that the function or its callees use: buffers, push constants, shared memory and
        built-in inputs.
        """
        tables = self.tables
        use = use_of(tables, record.function)
        # From SPIR-V 1.4 on the interface names every variable that is used; before, only inputs and outputs.
        used = use.variables | set(record.interface)
        push_constant_bytes = shared_bytes = 0
        resources = []
        built_ins = set()
        for id in sorted(used):
            if id not in tables.variables:
                continue
            type_, storage = tables.variables[id]
            if storage == Storage.PUSH_CONSTANT:
                push_constant_bytes = max(push_constant_bytes, self.size(self._pointee(type_), laid_out=True))
            elif storage == Storage.WORKGROUP:
                shared_bytes += self.size(self._pointee(type_), laid_out=False)
            elif storage == Storage.INPUT:
                built_ins.add(tables.decoration(id, Decoration.BUILT_IN))
            elif storage in (Storage.STORAGE_BUFFER, Storage.UNIFORM, Storage.UNIFORM_CONSTANT):
                resources.append(self._resource(id, type_, storage, written=id in use.written))
        workgroup_size, size_spec = self._workgroup_size(record)
        knows_subgroups = not built_ins.isdisjoint((BuiltIn.SUBGROUP_ID, BuiltIn.NUM_SUBGROUPS, BuiltIn.SUBGROUP_SIZE))
        # Several subgroups of a workgroup can combine their values only through shared memory, and divide the work only
        # by subgroup ids or sizes. Subgroup operations without these assume that the workgroup is one subgroup.
        one_subgroup = use.has_subgroup_ops and not shared_bytes and not knows_subgroups
        return EntryPoint(
            name=record.name,
            workgroup_size=workgroup_size,
            size_spec=size_spec,
            resources=tuple(sorted(resources, key=lambda resource: (resource.set, resource.binding))),
            push_constant_bytes=push_constant_bytes,
            shared_bytes=shared_bytes,
            uses_grid_size=BuiltIn.NUM_WORKGROUPS in built_ins,
            one_subgroup=one_subgroup,
        )

    def _resource(self, id: int, type_: int, storage: int, *, written: bool) -> Resource:
        """Return the resource of a bound variable; a descriptor set or binding that is not stated is 0.

        Args:
            id: Id of the variable.
            type_: Id of its type, a pointer.
            storage: Its storage class.
            written: Whether the shader's code may write it.
        """
        tables = self.tables
        pointee = self._pointee(type_)
        opcode, operands = tables.types.get(pointee, (0, ()))
        kind = "other"
        if opcode == Op.TYPE_STRUCT and storage == Storage.STORAGE_BUFFER:
            kind = "storage_buffer"
        elif opcode == Op.TYPE_STRUCT and storage == Storage.UNIFORM:
            is_buffer = tables.decoration(pointee, Decoration.BUFFER_BLOCK) is not None
            kind = "storage_buffer" if is_buffer else "uniform_buffer"
        members = [tables.member_decorations.get((pointee, i), {}) for i in range(len(operands))]
        # A buffer is read-only if its variable, or each member of its block, is decorated NonWritable.
        is_variable_read_only = tables.decoration(id, Decoration.NON_WRITABLE) is not None
        are_members_read_only = bool(members) and all(Decoration.NON_WRITABLE in member for member in members)
        read_only = is_variable_read_only or are_members_read_only
        name = tables.names.get(id) or tables.names.get(pointee) or ""
        return Resource(
            name=name,
            set=tables.decoration(id, Decoration.DESCRIPTOR_SET) or 0,
            binding=tables.decoration(id, Decoration.BINDING) or 0,
            kind=kind,
            read_only=read_only,
            written=written,
        )

    # Types and constants

    def _pointee(self, pointer: int) -> int:
        """Return the id of the type that a pointer type points to."""
        opcode, operands = self.tables.types.get(pointer, (0, ()))
        if opcode != Op.TYPE_POINTER:
            raise ArtifactError(f"{self.what}: the type {pointer} of a variable is no pointer")
        return operands[1]

    def size(self, type_: int, laid_out: bool, depth: int = 0) -> int:
        """Return the size of a type in bytes; sizes are cached in `sizes`.

        laid_out: whether its layout decorations (Offset, ArrayStride, MatrixStride) decide the size, as in buffers;
        otherwise it is the sum of its elements, without padding. depth: number of types around this one.
        """
        key = (type_, laid_out)
        if key not in self.sizes:
            if depth > _MAX_TYPE_DEPTH:
                raise ArtifactError(f"{self.what}: types are nested more than {_MAX_TYPE_DEPTH} deep")
            size = self._size(type_, laid_out, depth + 1)
            if size >= _MAX_BYTES:
                raise ArtifactError(f"{self.what}: type {type_} has more than 2^63 bytes")
            self.sizes[key] = size
        return self.sizes[key]

    def _size(self, type_: int, laid_out: bool, depth: int) -> int:
        """Return the size of a type in bytes, without the cache of `size`. Raise ArtifactError for a type without one.

        An array of four vectors of three f32, with an ArrayStride of 16, has 64 bytes if `laid_out`, else 48.

        Args:
            type_: Id of the type.
            laid_out: Whether to apply the strides and offsets that decorations state for types in buffers.
            depth: Number of types around it, whose limit `size` checks.
        """
        tables = self.tables
        opcode, operands = tables.types.get(type_, (0, ()))
        if opcode in (Op.TYPE_INT, Op.TYPE_FLOAT):
            return (operands[0] + 7) // 8
        if opcode == Op.TYPE_BOOL:
            return 4  # SPIR-V states no size; drivers take a word
        if opcode == Op.TYPE_VECTOR:
            return self.size(operands[0], laid_out, depth) * operands[1]
        if opcode == Op.TYPE_MATRIX:  # MatrixStride is a decoration of the struct member: `_struct` applies it
            return self.size(operands[0], laid_out, depth) * operands[1]
        if opcode == Op.TYPE_RUNTIME_ARRAY:
            return 0  # its length is that of the bound buffer
        if opcode == Op.TYPE_ARRAY:
            count = self.constant(operands[1])
            stride = tables.decoration(type_, Decoration.ARRAY_STRIDE) if laid_out else None
            return count * (stride or self.size(operands[0], laid_out, depth))
        if opcode == Op.TYPE_STRUCT:
            return self._struct(type_, operands, laid_out, depth)
        if opcode == Op.TYPE_POINTER:
            return 8  # an address
        raise ArtifactError(f"{self.what}: type {type_} has no size")

    def _struct(self, type_: int, members: Sequence[int], laid_out: bool, depth: int) -> int:
        """Return the size of a struct in bytes: the largest end offset of its members.

        If `laid_out`, the decorations Offset and MatrixStride decide the layout, else the members follow each other
        without padding. depth: number of types around this one.
        """
        end = 0
        for index, member in enumerate(members):
            decorations = self.tables.member_decorations.get((type_, index), {})
            size, offset = self.size(member, laid_out, depth), end
            if laid_out:
                # The operands of these decorations, and of OpTypeMatrix: type and number of the columns.
                matrix_stride = decorations.get(Decoration.MATRIX_STRIDE)
                stated_offset = decorations.get(Decoration.OFFSET)
                opcode, operands = self.tables.types.get(member, (0, ()))
                if matrix_stride and opcode == Op.TYPE_MATRIX:
                    size = matrix_stride[0] * operands[1]
                if stated_offset:
                    offset = stated_offset[0]
            end = max(end, offset + size)
        return end

    def constant(self, id: int) -> int:
        """Return the value of an integer constant; for a specialization constant its default value.

        An expression of specialization constants counts as 1, because only the driver computes it.
        """
        opcode, _, operands = self.tables.constants.get(id, (0, 0, ()))
        if opcode in (Op.CONSTANT, Op.SPEC_CONSTANT):  # the operands are the words of the value, the low one first
            return sum(word << 32 * i for i, word in enumerate(operands[:2]))
        if opcode == Op.SPEC_CONSTANT_OP:
            return 1
        raise ArtifactError(f"{self.what}: id {id} is no integer constant")

    def spec_constants(self) -> tuple[SpecConstant, ...]:
        """Return the specialization constants of the module, sorted by SpecId."""
        tables = self.tables
        constants = []
        for id, (opcode, type_, operands) in tables.constants.items():
            spec = tables.decoration(id, Decoration.SPEC_ID)
            if spec is None:
                continue
            if opcode == Op.SPEC_CONSTANT:  # a number: its operands are the words of the value, the low one first
                default = sum(word << 32 * i for i, word in enumerate(operands[:2]))
            elif opcode in (Op.SPEC_CONSTANT_TRUE, Op.SPEC_CONSTANT_FALSE):
                default = int(opcode == Op.SPEC_CONSTANT_TRUE)
            else:
                continue
            constants.append(
                SpecConstant(
                    id=spec,
                    name=tables.names.get(id, ""),
                    bytes=self.size(type_, laid_out=False),
                    default=default,
                )
            )
        return tuple(sorted(constants, key=lambda c: c.id))

    def _workgroup_size(
        self, record: EntryPointRecord
    ) -> tuple[tuple[int, int, int] | None, tuple[int | None, int | None, int | None]]:
        """Return the workgroup size (x, y, z) of an entry point (None: not stated), and the SpecId of each size (None:
        it is fixed).

        A constant decorated WorkgroupSize takes precedence over the execution mode. Raises ArtifactError if several
        such constants differ.
        """
        tables = self.tables
        ids: Sequence[int] = ()  # of the constants with the sizes, which may be specialization constants
        fixed: Sequence[int] = ()  # sizes as literals
        for mode, operands in tables.modes.get(record.function, ()):
            if mode == LOCAL_SIZE and len(operands) == 3:
                fixed = operands
            elif mode == LOCAL_SIZE_ID and len(operands) == 3:
                ids = operands
        if size_vectors := self._size_vectors():
            ids = min(size_vectors)  # any of them: their sizes are equal
        if ids:
            size = [self.constant(id) for id in ids]
            spec = [tables.decoration(id, Decoration.SPEC_ID) for id in ids]
            return (size[0], size[1], size[2]), (spec[0], spec[1], spec[2])
        if fixed:
            return (fixed[0], fixed[1], fixed[2]), (None, None, None)
        return None, (None, None, None)

    def _size_vectors(self) -> set[tuple[int, ...]]:
        """Return the ids of the three components of each constant that is decorated WorkgroupSize.

        Raises ArtifactError if such constants differ in a value or SpecId.
        """
        tables = self.tables
        size_vectors = {
            tuple(operands) for id, (_, _, operands) in tables.constants.items()
            if tables.decoration(id, Decoration.BUILT_IN) == BuiltIn.WORKGROUP_SIZE and len(operands) == 3
        }  # fmt: skip
        sizes = {
            tuple((self.constant(id), tables.decoration(id, Decoration.SPEC_ID)) for id in vector)
            for vector in size_vectors
        }
        if len(sizes) > 1:
            shown = " and ".join(str([size for size, _ in vector]) for vector in sorted(sizes, key=str))
            raise ArtifactError(
                f"{self.what}: constants of different sizes are decorated WorkgroupSize ({shown}); drivers take one "
                "of them for every entry point of a module; give each entry point a module of its own"
            )
        return size_vectors
