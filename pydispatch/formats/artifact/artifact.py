"""The artifact: one file that holds a compiled program. docs/artifact.md defines the format."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydispatch._core.artifact import ArtifactFile, crc32
from pydispatch._core.tables import paragraph, table
from pydispatch.distributions import version
from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.files import path_of, writing
from pydispatch.formats.artifact import manifest as manifests
from pydispatch.formats.artifact.choices import KEY as CHOICES
from pydispatch.formats.artifact.dispatches import KEY as DISPATCHES
from pydispatch.formats.artifact.manifest import (
    ConstantEntry,
    ExecutableEntry,
    FunctionEntry,
    Manifest,
    ValueEntry,
    VariantEntry,
)
from pydispatch.formats.artifact.members import Content, MemberTable, PackedExecutable, Variant
from pydispatch.formats.artifact.pack import ArchiveEntry, layout
from pydispatch.formats.artifact.uncompiled import check_compiled
from pydispatch.formats.program.text import parameters_of
from pydispatch.formats.storage import whole_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Artifact",
    "ArtifactFile",
    "ConstantEntry",
    "ExecutableEntry",
    "FunctionEntry",
    "Manifest",
    "PackedExecutable",
    "ValueEntry",
    "Variant",
    "VariantEntry",
]

PROGRAM = "program.bin"
"""Member with the host program."""
CONTRACTS = "contracts.bin"
"""Member with a second host program: what generated kernels require of their bindings."""


def _memory_of(data: memoryview) -> tuple[int, int]:
    """Return the address and the size in bytes of contiguous memory; (0, 0) if it is empty."""
    import numpy as np

    if data.nbytes == 0:
        return 0, 0
    return np.frombuffer(data, np.uint8).ctypes.data, data.nbytes


@functools.cache
def package_version() -> str:
    """Return the version of the installed package; "0+unknown" if it is not installed."""
    return version("pydispatch") or "0+unknown"


def warnings_of(variant: VariantEntry) -> list[str]:
    """Return the compiler's warnings in the manifest entry of a variant; values that are no text are omitted."""
    warnings = variant.extra.get("warnings")
    return [text for text in warnings if isinstance(text, str)] if isinstance(warnings, list) else []


class Artifact:
    """Compiled program, immutable.

    Created by `pydispatch.compile`, `Artifact.from_file` or `Artifact.from_bytes`. Members are views into the file, not
    copies.
    """

    def __init__(self, manifest: Manifest, content: Mapping[str, Content] | ArtifactFile) -> None:
        """Create an artifact from its manifest and members.

        Args:
            manifest: The parsed manifest.
            content: Members by name; "manifest.json" among them is the text of `manifest`.
        """
        self.manifest = manifest
        self._content = content  # file() of any thread may replace it: methods read it once
        missing = [name for name in [PROGRAM, *manifest.member_names()] if name not in content]
        if missing:
            more = f" and {len(missing) - 1} more that its manifest names" if len(missing) > 1 else ""
            raise ArtifactError(f"the artifact lacks the member '{missing[0]}'{more}")

    @classmethod
    def build(
        cls,
        functions: Iterable[tuple[str, str] | FunctionEntry],
        program: bytes,
        executables: Iterable[PackedExecutable] = (),
        constants: Iterable[NDArray[Any]] = (),
        producers: Mapping[str, str] | None = None,
        version: str | None = None,
        dispatches: str = "",
        choices: str = "",
        contracts: bytes = b"",
    ) -> Artifact:
        """Pack a program into an artifact in memory.

        Args:
            functions: Pairs (name, signature), or manifest entries, of the public functions.
            program: The host program (docs/program.md), which numbers executables, variants and constants in
                the order given here.
            executables: Executables with their binaries.
            constants: Arrays, stored as .npy. They are not copied.
            producers: Versions of the tools that took part, by tool.
            version: Version of pydispatch; default: the installed one.
            dispatches: Text of dispatches.encode(), which lists the operations of each dispatch, for people; "" for
                none.
            choices: Text of choices.encode(), which lists the results of tuning, for people; "" for none.
            contracts: A second host program, whose functions are contracts: each computes which bytes of its bindings
                an export accesses, and dispatches of the export are checked against it. The key "contracts" of a
                variant has their indices. Empty for none.

        Returns:
            The artifact, with the members manifest.json, program.bin, contracts.bin if there are contracts, a file in
            executables/ for each variant, and constants/0.npy and so on.

        Raises:
            ArtifactError: Two functions, executables or members have the same name.
        """
        # The manifest, and the members of executables and constants that it names.
        members = MemberTable()
        manifest = Manifest(version or package_version(), dict(producers or {}))
        manifest.functions = [f if isinstance(f, FunctionEntry) else FunctionEntry(*f) for f in functions]
        manifest.executables = [members.add_executable(executable) for executable in executables]
        manifest.constants = [members.add_constant(i, array) for i, array in enumerate(constants)]
        if parameters := parameters_of(program):  # constants that are supplied when the program is loaded; for people
            manifest.extra["parameters"] = parameters
        for key, value in ((DISPATCHES, dispatches), (CHOICES, choices)):
            if value:
                manifest.extra[key] = value
        # Reading the manifest back rejects values that a reader of the artifact would reject.
        manifest = Manifest.from_json(manifest.to_json())
        # The members that each artifact has are first.
        head: dict[str, Content] = {
            manifests.MEMBER: memoryview(manifest.to_bytes()), PROGRAM: memoryview(program).cast("B")
        }  # fmt: skip
        if contracts:
            head[CONTRACTS] = memoryview(contracts).cast("B")
        return cls(manifest, {**head, **members.content})

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Artifact:
        """Open a .pdx file.

        Raises:
            ArtifactError: The file is broken.
            InvalidArgumentError: It is a program or a model, which is not compiled.
            OSError: It cannot be read.
        """
        try:
            return cls._from_opened(ArtifactFile(path))
        except ArtifactError:
            check_compiled(os.fsdecode(path))
            raise

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Artifact:
        """Open the bytes of a .pdx file, which are copied; raise ArtifactError if they are broken."""
        if isinstance(data, (str, os.PathLike)):
            raise InvalidArgumentError(
                f"from_bytes: expected the bytes of a .pdx file, got the path {os.fsdecode(data)!r}; use from_file"
            )
        return cls._from_opened(ArtifactFile(data))

    @classmethod
    def _from_opened(cls, file: ArtifactFile) -> Artifact:
        """Read the manifest of an opened file; errors name the file."""
        try:
            return cls(Manifest.from_bytes(file.find(manifests.MEMBER, verify=True)), file)
        except ArtifactError as error:
            text = str(error)
            raise ArtifactError(text if text.startswith(file.name) else f"{file.name}: {text}") from None

    @property
    def functions(self) -> dict[str, str]:
        """Return the signatures of the public functions by name."""
        return dict(self.manifest.signatures())

    @property
    def executables(self) -> list[ExecutableEntry]:
        return self.manifest.executables

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """Return the parameters that are supplied when the program is loaded: scope, key, type and shape of each."""
        entries = self.manifest.extra.get("parameters", [])
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    @property
    def warnings(self) -> list[str]:
        """Return the compiler's warnings about all variants."""
        return [text for e in self.executables for v in e.variants for text in warnings_of(v)]

    @property
    def members(self) -> list[str]:
        """Return the names of all members, in the order of the file."""
        content = self._content
        return content.members() if isinstance(content, ArtifactFile) else list(content)

    @property
    def size(self) -> int:
        """Return the total size of all members, in bytes."""
        return sum(part.nbytes for member in self.members for part in self._content_of(member))

    def read(self, member: str) -> memoryview:
        """Return the bytes of a member, without a copy if the artifact is a file; raise ArtifactError if there is no
        such member."""
        parts = self._content_of(member)
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _content_of(self, member: str) -> tuple[memoryview, ...]:
        """Return the bytes of a member as one or more consecutive chunks, without a copy; ArtifactError without it."""
        members = self._content
        if isinstance(members, ArtifactFile):
            return (members.find(member),)
        if member not in members:
            raise ArtifactError(f"the artifact has no member '{member}'; it has: {', '.join(members)}")
        content = members[member]
        return content if isinstance(content, tuple) else (content,)

    def without_blocks(self, blocks: Sequence[bytes]) -> tuple[Artifact, dict[str, int]]:
        """Return a copy without the elements of constants whose memory is one of `blocks`; and member → index of its
        block.

        Such a member retains only the header of its .npy file; `with_blocks` appends the elements again. The cache of
        compiled programs stores such a copy, since `blocks` are literals in the text of the program.
        """
        index_of_memory = {_memory_of(memoryview(block)): index for index, block in enumerate(blocks)}
        content = {member: self._content_of(member) for member in self.members}
        indices: dict[str, int] = {}
        for member, (header, *elements) in content.items():
            index = index_of_memory.get(_memory_of(elements[0])) if elements else None
            if index is not None:
                content[member] = (header,)
                indices[member] = index
        return Artifact(self.manifest, content), indices

    def with_blocks(self, blocks: Mapping[str, bytes]) -> Artifact:
        """Return a copy with the elements of constants that `without_blocks` removed.

        blocks: name of a member, of which only the .npy header remains → bytes of its elements.
        """
        content = {member: self._content_of(member) for member in self.members}
        for member, block in blocks.items():
            content[member] = (*content[member], memoryview(block))
        return Artifact(self.manifest, content)

    def verify(self) -> None:
        """Verify the checksums of all members of an opened file; raise ArtifactError for the first wrong one."""
        content = self._content
        if isinstance(content, ArtifactFile):
            content.verify()

    def _chunks(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes of the .pdx file, a ZIP archive, in chunks.

        The checksums of all members are computed before the first chunk: a member's header states it before the data.
        A chunk is a header, a part of a member's content (not copied), or the table of contents at the end.
        """
        # The names, sizes and checksums of all members.
        entries, members = [], []
        for name in self.members:
            parts = self._content_of(name)
            crc = 0
            for part in parts:
                crc = crc32(part, crc)
            entries.append(ArchiveEntry(name, sum(part.nbytes for part in parts), crc))
            members.append(parts)
        # The header before each content, padded so that the content is aligned, and the directory at the end.
        plan = layout(entries)
        for (_, header), parts in zip(plan.headers, members, strict=True):
            yield header
            yield from parts
        yield plan.tail

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        """Pickle the artifact as its file."""
        return Artifact.from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Return the bytes of the .pdx file; equal artifacts give equal bytes."""
        return b"".join(self._chunks())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the .pdx file atomically: a concurrent reader sees the old file or the new one.

        A device or pipe is written in place instead of replaced. Raises SystemError, which is an OSError with errno, if
        `path` cannot be written; no temporary file remains.
        """
        target = Path(path_of("save: path", path, "the path of a file"))
        if target.exists() and not target.is_file() and not target.is_dir():
            with writing("the artifact", target), target.open("wb") as stream:
                stream.writelines(self._chunks())
            return
        with writing("the artifact", target):
            whole_file.write(target, list(self._chunks()))

    def file(self) -> ArtifactFile:
        """Return the artifact as an ArtifactFile for the loader in C: the opened file, or one in memory.

        A file in memory replaces the members that it was copied from, so that large constants are held once.
        """
        content = self._content
        if not isinstance(content, ArtifactFile):
            self._content = content = ArtifactFile(list(self._chunks()))
        return content

    def __repr__(self) -> str:
        """Return the names of the functions and the number of executables."""
        names = ", ".join(self.functions)
        return f"<pydispatch.Artifact: functions {names or 'none'}; {len(self.executables)} executables>"

    def _repr_html_(self) -> str:
        """Return an HTML view for notebooks: the functions, and the binaries for each target."""
        functions = [(entry.name, entry.signature) for entry in self.manifest.functions]
        binaries = [
            (f"{self.read(variant.member).nbytes:,}", entry.name, variant.format, ", ".join(entry.exports))
            for entry in self.executables for variant in entry.variants
        ]  # fmt: skip
        shown = paragraph(repr(self)) + table(["function", "type"], functions)
        return shown + table(["bytes", "executable", "for", "kernels"], binaries, figures=1) if binaries else shown
