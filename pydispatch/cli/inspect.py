"""Shows the content of a .pdx artifact, a model, an ELF file, a PTX text or a cubin."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydispatch.cli import cuda_files, models
from pydispatch.cli.options import add_results_flag, results_of
from pydispatch.errors import ArtifactError, DeviceUnavailableError
from pydispatch.files import open_mapped, read
from pydispatch.formats.artifact import choices, dispatches
from pydispatch.formats.artifact.artifact import (
    PROGRAM,
    Artifact,
    ExecutableEntry,
    FunctionEntry,
    VariantEntry,
    warnings_of,
)
from pydispatch.formats.elf import cubin, elf
from pydispatch.formats.elf.reader import is_elf
from pydispatch.formats.program.text import chains_of, commands_of, signature_text
from pydispatch.formats.ptx.lex import is_ptx

DESCRIPTION = """\
Shows the functions, executables, constants and tools of a .pdx artifact, the functions and weights of a model and which
kernels it needs, the segments and symbols of an ELF file, or the kernels and functions of PTX and cubins. Nothing in
the file is run."""
"""Text at the beginning of the help of the command."""

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != ord("\n")}
"""Code of a control character → text that is printed in its place, such as `\\x1b` for the escape character."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch inspect`."""
    parser.description = DESCRIPTION
    parser.add_argument("file", metavar="FILE", help="a .pdx artifact, a model, an ELF file, PTX or a cubin")
    parser.add_argument("--json", action="store_true", help="print JSON for other programs to read")
    parser.add_argument("--verify", action="store_true", help="compare every checksum, also those of large constants")
    parser.add_argument("--program", action="store_true", help="print the host program of each function")
    parser.add_argument(
        "--dispatches",
        action="store_true",
        help="print the operations of each dispatch, and why neighbours were not fused",
    )
    add_results_flag(parser)
    parser.add_argument("--code", action="store_true", help="print the kernels that are text: WGSL and PTX")


def run(args: argparse.Namespace) -> int:
    """Print the content of a file and return 0; raise ArtifactError if it is broken, an OSError if it cannot be
    read."""
    with open_mapped(args.file) as stream:
        start = stream.read(65536)  # enough to recognize PTX, which may begin with comments
    kind = "an ELF file" if is_elf(start) else "PTX" if is_ptx(start) else ""
    # None if the file is no model of a frontend.
    model = None if kind or Path(args.file).suffix == ".pdx" else models.describe(Path(args.file), results_of(args))
    if not kind and model is None:
        return _run_artifact(args)
    requested = [name for name in ("verify", "program", "dispatches", "code") if getattr(args, name)]
    if requested:
        option = f"--{requested[0]}"
        raise ArtifactError(f"{args.file}: {option} needs a .pdx artifact; this is {kind or 'a model'}")
    if model is not None:
        return _run_model(args, model)
    return _run_cuda(args) if kind == "PTX" or cubin.is_cubin(start) else _run_elf(args)  # a cubin is an ELF file


def _run_model(args: argparse.Namespace, model: dict[str, Any]) -> int:
    """Print a model, which `models.describe` has described, and return 0."""
    _print(json.dumps(model, indent=1) if args.json else models.render(args.file, model))
    return 0


def _run_artifact(args: argparse.Namespace) -> int:
    """Print an artifact, or the parts of it that the options select; --verify also checks the checksums.

    --program prints the instructions of the host program, --dispatches the operations of each dispatch and which
    dispatches run tile by tile, --code the kernels that are text. --json prints a JSON object instead.
    """
    artifact = Artifact.from_file(args.file)
    if args.verify:
        artifact.verify()
    if args.json:
        _print(json.dumps(_json_report(artifact, args), indent=1, ensure_ascii=False))
    elif args.program or args.dispatches or args.code:
        if args.program:
            _print(_program_text(artifact))
        if args.dispatches:
            chains = [f"@{function}: {' then '.join(names)} run tile by tile" for function, names in _chains(artifact)]
            _print("\n".join([dispatches.render(_listing(artifact), _choices(artifact)), *chains]))
        if args.code:
            _print("\n".join(f"// {member}\n{text}" for member, text in _code(artifact)) or "no kernel is text")
    else:
        _print(render(args.file, artifact))
        if args.verify:
            _print(f"\nall {len(artifact.members)} checksums agree")
    return 0


def _json_report(artifact: Artifact, args: argparse.Namespace) -> dict[str, Any]:
    """Return what --json prints: the description of an artifact, with the parts that other options select."""
    report = describe(artifact)
    if args.verify:
        report["verified"] = True
    if args.program:
        report["program"] = _program_text(artifact)
    if args.dispatches:
        report[dispatches.KEY] = {
            function: [asdict(dispatch) for dispatch in listed] for function, listed in _listing(artifact)
        }
        report["chains"] = [{"function": function, "exports": names} for function, names in _chains(artifact)]
        report[choices.KEY] = [asdict(choice) for choice in _choices(artifact)]
    if args.code:
        report["code"] = dict(_code(artifact))
    return report


def _print(text: str) -> None:
    """Print a text with names from a file that may be hostile: control characters, except for line ends, and characters
    that standard output cannot encode are printed as escapes.
    """
    encoding = sys.stdout.encoding or "utf-8"
    shown = text.translate(_CONTROLS).encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(shown.rstrip("\n") + "\n")


def _program_text(artifact: Artifact) -> str:
    """Return the host program of an artifact, disassembled."""
    from pydispatch.formats.program.program import disassemble

    artifact.file().verify(PROGRAM)
    return disassemble(artifact.read(PROGRAM))


def _code(artifact: Artifact) -> list[tuple[str, str]]:
    """Return pairs (member, text) of the variants whose kernels are stored as text."""
    members = [variant.member for entry in artifact.executables for variant in entry.variants]
    texts = [name for name in members if name.endswith((".wgsl", ".ptx"))]
    return [(name, bytes(artifact.read(name)).decode("utf-8", "replace")) for name in texts]


def _listing(artifact: Artifact) -> dispatches.Listing:
    """Return the listing of dispatches that the compiler has stored in an artifact, by function."""
    text = artifact.manifest.extra.get(dispatches.KEY)
    return [] if text is None else dispatches.decode(text)


def _chains(artifact: Artifact) -> list[tuple[str, list[str]]]:
    """Return pairs (function, exports), one for each chain in the host program.

    A chain is a sequence of dispatches that run tile by tile: all of them for the first tile of the last result, then
    all of them for the next tile, so that intermediate tiles stay in the cache. `exports` are its kernels in order.
    """
    artifact.file().verify(PROGRAM)  # raises ArtifactError if the checksum of the host program is wrong
    return chains_of(artifact.read(PROGRAM))


def _choices(artifact: Artifact) -> list[choices.Choice]:
    """Return the decisions of the compiler that it has stored in an artifact."""
    text = artifact.manifest.extra.get(choices.KEY)
    return [] if text is None else choices.decode(text)


def _run_elf(args: argparse.Namespace) -> int:
    """Print the header, exports and other facts of the ELF file `args.file`, with --json as JSON; return 0."""
    data = read(args.file)
    try:
        facts = elf.read(data)
    except ArtifactError as error:
        raise ArtifactError(f"{args.file}: {error}") from None
    _print(json.dumps(asdict(facts), indent=1) if args.json else render_elf(args.file, len(data), facts))
    return 0


def _run_cuda(args: argparse.Namespace) -> int:
    """Print the kernels, functions and imports of the PTX text or cubin `args.file`, with --json as JSON; return 0."""
    data = read(args.file)
    facts = cuda_files.describe(data, args.file)
    if args.json:
        _print(json.dumps(facts, indent=1))
        return 0
    lines = [f"{args.file}: {facts['kind']} for {facts['target']}, {size_text(len(data))}", ""]
    lines += table(("what", "name", "parameters in bytes", "block"), cuda_files.rows_of(facts))
    if facts["imports"]:
        lines += ["", "imports", *(f"  {name}" for name in facts["imports"])]
    _print("\n".join(lines))
    return 0


def describe(artifact: Artifact) -> dict[str, Any]:
    """Return what `--json` prints for an artifact: the JSON object of its manifest, with further keys.

    The further keys are:

    - "size": bytes of the artifact; also of each variant and of each constant
    - "chosen_here", of each executable: name of the variant that this CPU would load, or null
    - "commands": name and operand types of each host command (code of the host that runs between dispatches)
    - "members": name and size of each file in the artifact

    The keys "dispatches" (operations of each dispatch) and "choices" (tuning results) of the manifest are left out,
    because they are long. `_json_report` adds them, decoded, for --dispatches.
    """
    report = artifact.manifest.to_json()
    for key in (dispatches.KEY, choices.KEY):
        report.pop(key, None)
    for executable, entry in zip(report["executables"], artifact.executables, strict=True):
        executable["chosen_here"] = _chosen_here(entry)
        for variant in executable["variants"]:
            variant["size"] = artifact.read(variant["member"]).nbytes
    for constant in report["constants"]:
        constant["size"] = artifact.read(constant["member"]).nbytes
    report["commands"] = [
        {"name": name, "operands": signature_text(operands)} for name, operands in commands_of(artifact.read(PROGRAM))
    ]
    report["members"] = [{"name": name, "size": artifact.read(name).nbytes} for name in artifact.members]
    report["size"] = artifact.file().size
    return report


def size_text(size: int) -> str:
    """Format a size in bytes for people, such as 812 B, 9.0 KiB or 4.1 GiB."""
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if round(value, 1) < 1024 or unit == "TiB":  # as it is printed
            break
    return f"{value:.1f} {unit}"


Row = Sequence[str]
"""Texts of the cells of one row of a table."""


def table(heads: Row, rows: Sequence[Row], *, right_aligned: Sequence[int] = (), indent: str = "  ") -> list[str]:
    """Return the lines of a table. `right_aligned` has the indices of the right-aligned columns."""
    cells = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = []
    for row in cells:
        cells_of_row = enumerate(zip(row, widths, strict=True))
        padded = [cell.rjust(w) if i in right_aligned else cell.ljust(w) for i, (cell, w) in cells_of_row]
        lines.append((indent + "  ".join(padded)).rstrip())
    return lines


def _executable_lines(artifact: Artifact) -> list[str]:
    """Return the lines about the executables of an artifact, each with a table of its variants.

    In the column "imports", a `?` marks an optional import. "this CPU takes" names the variant that would be loaded.

    Example:
          first
            exports: mul, add
            variant  format                  size  alignment  requires   imports
            generic  embedded-elf-x86_64  2.0 KiB         64  -          -
            v3       embedded-elf-x86_64  4.9 KiB         16  avx2, fma  f, ?g
            this CPU takes v3
    """
    lines: list[str] = []
    for entry in artifact.executables:
        lines.append(f"  {entry.name}")
        lines.append(f"    exports: {', '.join(entry.exports) or 'none'}")
        rows = [
            (
                variant.name, variant.format, size_text(artifact.read(variant.member).nbytes), str(variant.alignment),
                _requirements(variant.requires), ", ".join(variant.imports) or "-",
            )
            for variant in entry.variants
        ]  # fmt: skip
        heads = ("variant", "format", "size", "alignment", "requires", "imports")
        lines += table(heads, rows, right_aligned=(2, 3), indent="    ")
        lines += _choice_lines(entry)
        for variant in entry.variants:
            lines += _kernel_lines(entry.exports, variant)
            # Description of the CPU whose caches and vector units decided the block sizes of generated code.
            if isinstance(model := variant.extra.get("machine_model"), str):
                lines.append(f"    {variant.name} is made for {model}")
            lines += [f"    warning: {text}" for text in warnings_of(variant)]
    return lines


def _choice_lines(entry: ExecutableEntry) -> list[str]:
    """Return a line that states which of several CPU variants this machine would use; none for fewer than two
    variants."""
    if sum(variant.format.startswith("embedded-elf-") for variant in entry.variants) < 2:
        return []
    chosen = _chosen_here(entry)
    return ["    this CPU takes none of them" if chosen is None else f"    this CPU takes {chosen}"]


def _chosen_here(entry: ExecutableEntry) -> str | None:
    """Return the name of the variant that requires the most features, among those whose features this CPU has.

    None if no variant runs on it. Further conditions, which a program may state as code for a variant, are ignored.
    """
    from pydispatch.runtime.devices import cpu
    from pydispatch.runtime.program.variants import best_of

    try:
        index = best_of(cpu.host(workers=1), [(variant.format, variant.requires) for variant in entry.variants])
    except DeviceUnavailableError:
        return None
    return None if index is None else entry.variants[index].name


def _requirements(names: Sequence[str]) -> str:
    """Return the required device features as text; of CUDA architectures only the newest, which implies the older
    ones."""
    architectures = [name for name in names if re.fullmatch(r"(cubin_)?sm_\d+", name)]
    oldest_first = sorted(architectures, key=lambda name: int(name.rpartition("_")[2]))
    newest = {name.rpartition("_")[0]: name for name in oldest_first}  # the last name of each kind remains
    listed = [name for name in names if name not in architectures or name in newest.values()]
    return ", ".join(listed) or "-"


def _kernel_lines(exports: Sequence[str], variant: VariantEntry) -> list[str]:
    """Return the lines of a table with one row for each kernel of a CUDA variant; no lines for other variants.

    The figures are from the key "ptx" of the variant in the manifest. Its lists have one item for each export:

    - "blocks": threads of a block along x, y and z; null if the kernel itself states them
    - "shared": bytes of dynamic workgroup memory ("shared memory" in CUDA)
    - "entries": [index of the module, symbol of the kernel]; missing if the code is one module
    - "parameters": bytes of each kernel parameter after the bindings; missing in the same case

    Example:
        kernel of sm_86  symbol  block   dynamic memory  scalars (bytes)
        mul              mul     64x1x1  0 B             4, 4
    """
    notes = variant.extra.get("ptx")
    if not isinstance(notes, dict) or not all(isinstance(notes.get(k), list) for k in ("blocks", "shared")):
        return []
    rows = []
    try:
        entries, scalar_bytes = notes.get("entries") or [], notes.get("parameters") or []
        symbols = [str(symbol) for _, symbol in entries]
        for i, (name, block, shared_bytes) in enumerate(zip(exports, notes["blocks"], notes["shared"], strict=False)):
            symbol = symbols[i] if i < len(symbols) else "-"
            block_text = "x".join(map(str, block or ())) or "-"
            scalars = scalar_bytes[i] if i < len(scalar_bytes) else None
            scalar_text = ", ".join(map(str, scalars or ())) or "-"
            rows.append((name, symbol, block_text, size_text(int(shared_bytes)), scalar_text))
    except (TypeError, ValueError, IndexError, KeyError):
        raise ArtifactError(f"the key \"ptx\" of variant '{variant.name}' cannot be read") from None
    heads = (f"kernel of {variant.name}", "symbol", "block", "dynamic memory", "scalars (bytes)")
    return table(heads, rows, indent="    ")


def render(name: str, artifact: Artifact) -> str:
    """Return what `inspect` prints about an artifact: functions, executables, constants, parameters and members.

    name: the path to show.
    """
    manifest = artifact.manifest
    members = artifact.members
    producers = ", ".join(f"{tool} {version}" for tool, version in sorted(manifest.producers.items()))
    written = f"written by pydispatch {manifest.version}" + (f" with {producers}" if producers else "")
    lines = [f"{name}: pydispatch artifact, {size_text(artifact.file().size)}, {len(members)} members", f"  {written}"]
    lines += ["", "functions"]
    rows: list[Row] = [(f"@{function.name}", _signature(function)) for function in manifest.functions]
    lines += table(("name", "signature"), rows) if rows else ["  none"]
    lines += ["", "executables", *(_executable_lines(artifact) or ["  none"])]
    if manifest.constants:
        rows = [
            (c.member, c.dtype, "x".join(map(str, c.shape)) or "scalar", size_text(artifact.read(c.member).nbytes))
            for c in manifest.constants
        ]
        lines += ["", "constants", *table(("member", "dtype", "shape", "size"), rows, right_aligned=(3,))]
    if artifact.parameters:
        rows = [
            (repr(p.get("scope")), repr(p.get("key")), "x".join([*map(str, p.get("shape", ())), str(p.get("type"))]))
            for p in artifact.parameters
        ]
        lines += ["", "parameters", *table(("scope", "key", "type"), rows)]
    if commands := commands_of(artifact.read(PROGRAM)):
        rows = [(command, signature_text(operands)) for command, operands in commands]
        lines += ["", "host commands", *table(("name", "operands"), rows)]
    rows = [(member, size_text(artifact.read(member).nbytes)) for member in members]
    lines += ["", "members", *table(("name", "size"), rows, right_aligned=(1,))]
    return "\n".join(lines)


def _signature(function: FunctionEntry) -> str:
    """Return the arguments and results of a function with their names, or its MLIR type if the artifact has no
    names."""
    if function.inputs is None or function.outputs is None:
        return function.signature
    inputs, outputs = (", ".join(map(str, values)) for values in (function.inputs, function.outputs))
    return f"({inputs}) -> {outputs if len(function.outputs) == 1 else f'({outputs})'}"


def render_elf(name: str, size: int, facts: elf.ElfFacts) -> str:
    """Return what `inspect` prints about an ELF file.

    Args:
        name: The path to show.
        size: Size of the file in bytes.
        facts: Its segments and symbols.
    """
    lines = [f"{name}: ELF {facts.type} for {facts.machine}, {size_text(size)}"]
    if facts.segments:
        rows = [
            (s.kind, s.access, f"{s.address:#x}", size_text(s.file_size), size_text(s.memory_size))
            for s in facts.segments
        ]
        heads = ("kind", "access", "address", "in file", "in memory")
        lines += ["", "segments", *table(heads, rows, right_aligned=(2, 3, 4))]
    for title, names in (("exports", facts.exports), ("imports", facts.imports), ("needed libraries", facts.needed)):
        lines += ["", title, *([f"  {item}" for item in names] or ["  none"])]
    return "\n".join(lines)
