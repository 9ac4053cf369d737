"""The manifest of an artifact: its content and requirements. docs/artifact.md has the schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydispatch._core.artifact import MAX_ALIGNMENT
from pydispatch.errors import ArtifactError
from pydispatch.formats.artifact.fields import (
    MISSING,
    Extra,
    ManifestFault,
    json_object,
    named_size,
    size_item,
    take_integer,
    take_list,
    take_text,
    text_item,
)

FORMAT = 1
"""Version of the manifest's format; files with a newer one are refused."""
MEMBER = "manifest.json"
"""Name of the manifest in the archive of an artifact."""


def _check_parameter(value: object) -> None:
    """Raise ManifestFault unless a JSON value is the entry of a parameter.

    Its form is {"scope": str, "key": str, "type": str, "shape": [int, ...]}.
    """
    rest = json_object(value)
    for key in ("scope", "key", "type"):
        if type(rest.get(key, MISSING)) is not str:
            raise ManifestFault(key, "a string", rest.get(key, MISSING))
    take_list(rest, "shape", size_item)


def _take_header(rest: Extra) -> tuple[str, Extra]:
    """Remove the header of a manifest from its fields; return the version in it, and its other fields.

    Raise ArtifactError for a format that is newer than what this version reads, and ManifestFault for invalid values.
    """
    try:
        header = json_object(rest.pop("pydispatch", MISSING))
        version = take_text(header, "version")
        file_format = take_integer(header, "format", low=1, high=2**31)
    except ManifestFault as fault:
        fault.path.insert(0, "pydispatch")  # the error names a field such as pydispatch.version
        raise
    if file_format > FORMAT:
        raise ArtifactError(
            f"the artifact was written by pydispatch {version} in format {file_format}; this version reads formats "
            f"up to {FORMAT}: update pydispatch to {version} or newer, or compile the source again with this one: "
            "pydispatch compile FILE.mlir -o FILE.pdx"
        )
    return version, header


def _check_unique(names: list[str], where: str) -> None:
    """Raise ArtifactError if a name occurs twice; `where` names the list in the message."""
    if len(set(names)) != len(names):
        double = next(name for i, name in enumerate(names) if name in names[:i])
        raise ArtifactError(f"{MEMBER}: {where}: the name '{double}' is given twice")


def _is_list_of(kind: type) -> Callable[[object], bool]:
    """Return a predicate: whether a JSON value is a list whose items all have this type."""
    return lambda value: type(value) is list and all(type(item) is kind for item in value)


_OPTIONAL: dict[str, tuple[str, Callable[[object], bool]]] = {
    "calls": ("a list of objects", _is_list_of(dict)),
    "contracts": (
        "a list of numbers or null",
        # Indices of functions: 32-bit words, of which the largest stands for "none".
        lambda value: type(value) is list and all(n is None or (type(n) is int and 0 <= n < 2**32 - 1) for n in value),
    ),
    "dynamic": ("true or false", lambda value: type(value) is bool),
    "flops": (
        "a list of lists or null",
        lambda value: type(value) is list and all(n is None or type(n) is list for n in value),
    ),
    "ptx": ("an object", lambda value: type(value) is dict),
    "spirv": ("an object", lambda value: type(value) is dict),
    "wgsl": ("an object", lambda value: type(value) is dict),
    "warnings": ("a list of strings", _is_list_of(str)),
}
"""Optional field of a variant → (expected kind in words, whether a value has it). Its readers check the content."""


@dataclass(slots=True)
class ValueEntry:
    """Entry of a manifest for an argument or a result of a public function.

    Attributes:
        name: Name; "" for none.
        type: Element type in MLIR, such as "f32".
        shape: Sizes, with names for dynamic ones; None for a scalar, [] for a tensor without dimensions.
        extra: Fields that this version does not know.
    """

    name: str
    type: str
    shape: list[int | str] | None = None
    extra: Extra = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> ValueEntry:
        """Check a JSON object and return its entry; fields of other versions become `extra`. Raises ManifestFault."""
        rest = json_object(value)  # a copy, from which the known fields are removed
        name = rest.pop("name", MISSING)
        if type(name) is not str:
            raise ManifestFault("name", "a string", name)
        shape = take_list(rest, "shape", named_size) if "shape" in rest else None
        return cls(name, take_text(rest, "type"), shape, extra=rest)

    def to_json(self) -> Extra:
        """Return the entry as a JSON object, with `extra`; a scalar has no "shape"."""
        shape = {} if self.shape is None else {"shape": self.shape}
        return {**self.extra, "name": self.name, "type": self.type, **shape}

    def __str__(self) -> str:
        """Return text such as `x: f32[batch, 4]` or `n: i32`."""
        shape = "" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        return f"{self.name}: {self.type}{shape}" if self.name else f"{self.type}{shape}"


@dataclass(slots=True)
class FunctionEntry:
    """Entry of a manifest for a public function of the program.

    Attributes:
        name: Name of the function.
        signature: MLIR function type, for people.
        inputs: Arguments; None if the artifact does not describe them.
        outputs: Results; None if the artifact does not describe them.
        extra: Fields that this version does not know.
    """

    name: str
    signature: str
    inputs: list[ValueEntry] | None = None
    outputs: list[ValueEntry] | None = None
    extra: Extra = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> FunctionEntry:
        """Check a JSON object and return its entry; fields of other versions become `extra`. Raises ManifestFault."""
        rest = json_object(value)
        inputs = take_list(rest, "inputs", ValueEntry.from_json) if "inputs" in rest else None
        outputs = take_list(rest, "outputs", ValueEntry.from_json) if "outputs" in rest else None
        name, signature = take_text(rest, "name"), take_text(rest, "signature")
        return cls(name, signature, inputs, outputs, extra=rest)  # fields that are not taken are kept as they are

    def to_json(self) -> Extra:
        """Return the entry as a JSON object, with `extra`; "inputs" and "outputs" are left out if they are None."""
        sides = {"inputs": self.inputs, "outputs": self.outputs}
        known = {key: [value.to_json() for value in values] for key, values in sides.items() if values is not None}
        return {**self.extra, "name": self.name, "signature": self.signature, **known}


@dataclass(slots=True)
class VariantEntry:
    """Entry of a manifest for a variant: the binary of one executable for one target.

    Attributes:
        name: Name of the variant, unique in its executable.
        member: Name of the artifact member that contains the binary; the member is empty if the code is supplied at
            load ("dynamic").
        format: Format of the binary, for example "embedded-elf-x86_64".
        requires: Features that the device must have, such as "avx2" or "sm_80".
        alignment: Alignment in bytes that the binary requires of its bindings, a power of two.
        imports: Symbols that are resolved at load; '?' marks an optional symbol.
        extra: Fields that this version does not know, and optional fields such as "warnings" (see `_OPTIONAL`).
    """

    name: str
    member: str
    format: str
    requires: list[str] = field(default_factory=list)
    alignment: int = 64
    imports: list[str] = field(default_factory=list)
    extra: Extra = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> VariantEntry:
        """Check a JSON object and return its entry; raise ManifestFault for an invalid value.

        Each take_...() removes the field that it returns from `rest`. The fields that are left become `extra`: optional
        ones such as "contracts" and "warnings", whose values are checked, and those of newer versions, which are not.
        """
        rest = json_object(value)
        alignment = take_integer(rest, "alignment", low=1, high=MAX_ALIGNMENT)
        is_power_of_two = alignment & (alignment - 1) == 0
        if not is_power_of_two:
            raise ManifestFault("alignment", "a power of two", alignment)
        for key, (expected, fits) in _OPTIONAL.items():  # checked, but not removed from `rest`
            if key in rest and not fits(rest[key]):
                raise ManifestFault(key, expected, rest[key])
        return cls(
            name=take_text(rest, "name"),
            member=take_text(rest, "member"),
            format=take_text(rest, "format"),
            requires=take_list(rest, "requires", text_item),
            alignment=alignment,
            imports=take_list(rest, "imports", text_item),
            extra=rest,
        )

    def to_json(self) -> Extra:
        """Return the entry as a JSON object, with the fields in `extra`."""
        return {
            **self.extra, "name": self.name, "member": self.member, "format": self.format, "requires": self.requires,
            "alignment": self.alignment, "imports": self.imports,
        }  # fmt: skip


@dataclass(slots=True)
class ExecutableEntry:
    """Executable: kernels that are compiled together, with a binary for each target.

    Attributes:
        name: Name of the executable.
        exports: Names of the exports (kernels), by ordinal.
        variants: Its binaries, in the order in which the host program numbers them.
        extra: Fields that this version does not know.
    """

    name: str
    exports: list[str] = field(default_factory=list)
    variants: list[VariantEntry] = field(default_factory=list)
    extra: Extra = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> ExecutableEntry:
        """Check a JSON object and return its entry; fields of other versions become `extra`. Raises ManifestFault."""
        rest = json_object(value)
        name = take_text(rest, "name")
        exports = take_list(rest, "exports", text_item)
        variants = take_list(rest, "variants", VariantEntry.from_json)
        _check_unique(exports, f"exports of executable '{name}'")
        _check_unique([v.name for v in variants], f"variants of executable '{name}'")
        return cls(name, exports, variants, extra=rest)  # fields that are not taken are kept as they are

    def to_json(self) -> Extra:
        """Return the entry as a JSON object, with `extra`."""
        variants = [v.to_json() for v in self.variants]
        return {**self.extra, "name": self.name, "exports": self.exports, "variants": variants}


@dataclass(slots=True)
class ConstantEntry:
    """Entry of a manifest for a constant array.

    Attributes:
        member: Name of the .npy member with the array.
        dtype: NumPy dtype string, such as "<f4".
        shape: Sizes of the array.
        extra: Fields that this version does not know.
    """

    member: str
    dtype: str
    shape: list[int] = field(default_factory=list)
    extra: Extra = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: object) -> ConstantEntry:
        """Check a JSON object and return its entry; fields of other versions become `extra`. Raises ManifestFault."""
        rest = json_object(value)
        member, dtype, shape = take_text(rest, "member"), take_text(rest, "dtype"), take_list(rest, "shape", size_item)
        return cls(member, dtype, shape, extra=rest)

    def to_json(self) -> Extra:
        """Return the entry as JSON, with the unknown keys that it was read with."""
        return {**self.extra, "member": self.member, "dtype": self.dtype, "shape": self.shape}


@dataclass(slots=True)
class Manifest:
    """Content of manifest.json, the member of an artifact that describes its functions, executables and constants.

    Attributes:
        version: Version of pydispatch that wrote the artifact.
        producers: Versions of the tools that took part, by tool.
        functions: Public functions, in any order.
        executables: Executables, in the order in which the host program numbers them.
        constants: Constants that are stored in the artifact, in the order of the host program.
        extra: Keys that this version does not interpret, and keys for people, such as "parameters".
    """

    version: str
    producers: dict[str, str] = field(default_factory=dict)
    functions: list[FunctionEntry] = field(default_factory=list)
    executables: list[ExecutableEntry] = field(default_factory=list)
    constants: list[ConstantEntry] = field(default_factory=list)
    extra: Extra = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Manifest:
        """Parse and check manifest.json; raise ArtifactError with the JSON path to the fault.

        Keys that this version does not know are retained in `extra`. An artifact of a newer format is rejected with the
        version that wrote it.
        """
        try:
            value = json.loads(bytes(data))
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"{MEMBER} is no JSON: {error}") from None
        return cls.from_json(value)

    @classmethod
    def from_json(cls, value: object) -> Manifest:
        """Build a manifest from parsed JSON and check it; checks and errors are those of from_bytes()."""
        try:
            manifest = cls._read(value)
        except ManifestFault as fault:
            raise fault.error(MEMBER) from None
        manifest.check()
        return manifest

    @classmethod
    def _read(cls, value: object) -> Manifest:
        """Build a manifest from parsed JSON; raise ManifestFault for invalid values, ArtifactError for a newer format.

        take_text(), take_integer() and take_list() remove the field that they return. The fields that are left are
        those that this version does not know: they become `extra`, which to_json() writes back. For

            {"pydispatch": {"version": "1.0", "format": 1, "a": 2}, "functions": [], "executables": [],
             "constants": [], "b": 3}

        `extra` is {"b": 3, "pydispatch": {"a": 2}}.
        """
        rest = json_object(value)
        version, header = _take_header(rest)
        producers = header.pop("producers", {})
        if type(producers) is not dict or not all(type(v) is str for v in producers.values()):
            raise ManifestFault("pydispatch.producers", "an object of strings", producers)
        if "parameters" in rest:  # checked in a copy: the field stays in `extra`, where Artifact.parameters reads it
            take_list(rest.copy(), "parameters", _check_parameter)
        return cls(
            version=version,
            producers=producers,
            functions=take_list(rest, "functions", FunctionEntry.from_json),
            executables=take_list(rest, "executables", ExecutableEntry.from_json),
            constants=take_list(rest, "constants", ConstantEntry.from_json),
            extra={**rest, "pydispatch": header} if header else rest,  # after all fields have been removed from `rest`
        )

    def check(self) -> None:
        """Raise ArtifactError if two functions, executables or members have the same name."""
        _check_unique([f.name for f in self.functions], "functions")
        _check_unique([e.name for e in self.executables], "executables")
        _check_unique([v.member for e in self.executables for v in e.variants], "members of the variants")
        _check_unique([c.member for c in self.constants], "members of the constants")

    def to_json(self) -> Extra:
        """Return the manifest as a JSON object, with the entries that this version does not know."""
        header = {
            **self.extra.get("pydispatch", {}), "format": FORMAT, "version": self.version, "producers": self.producers
        }  # fmt: skip
        return {
            **self.extra,
            "pydispatch": header,
            "functions": [f.to_json() for f in self.functions],
            "executables": [e.to_json() for e in self.executables],
            "constants": [c.to_json() for c in self.constants],
        }

    def to_bytes(self) -> bytes:
        """Return the text of manifest.json: sorted keys, indented by one space, deterministic."""
        return (json.dumps(self.to_json(), sort_keys=True, indent=1, ensure_ascii=False) + "\n").encode("utf-8")

    def member_names(self) -> list[str]:
        """Return the names of the members with binaries and constants, in manifest order."""
        return [v.member for e in self.executables for v in e.variants] + [c.member for c in self.constants]

    def signatures(self) -> Mapping[str, str]:
        """Return the signature of each function by name."""
        return {f.name: f.signature for f in self.functions}
