"""Compilation of a program to an artifact: parse, preprocess, form dispatches, expand executables, emit, schedule,
package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch import ir, logs
from pydispatch.compiler import devlib
from pydispatch.compiler.analysis.interface import interface_of
from pydispatch.compiler.analysis.kinds import MOST_BINDINGS, MOST_TENSORS
from pydispatch.compiler.constants.channels_last import put_channels_last
from pydispatch.compiler.constants.functions import DerivedFunctions
from pydispatch.compiler.constants.hoist import hoist_constants
from pydispatch.compiler.constants.pack import pack_constants
from pydispatch.compiler.driver import arguments
from pydispatch.compiler.driver.executables import emit_executables
from pydispatch.compiler.driver.phases import PHASE_NAMES, PHASES, added_patterns, run_added_passes
from pydispatch.compiler.driver.progress import Progress, Tracker
from pydispatch.compiler.driver.reduction import reporting
from pydispatch.compiler.driver.sources import load_source, lower_input
from pydispatch.compiler.flatten.inline import DERIVED, INITIALIZER, inline_calls
from pydispatch.compiler.fusion.legality import Legality
from pydispatch.compiler.fusion.quantized.products import multiply_integers
from pydispatch.compiler.fusion.quantized.requantize import requantize
from pydispatch.compiler.host.contract_program import contract_program
from pydispatch.compiler.host.program import schedule
from pydispatch.compiler.kernels.legality import space_of, why_not
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, level_of
from pydispatch.compiler.match import Rewrites, patterns_of, rewrites_of
from pydispatch.compiler.match.custom import patterns_for
from pydispatch.compiler.normalize import normalize
from pydispatch.compiler.outline.asserts import report_asserts
from pydispatch.compiler.outline.executables import Selection, expand_executables
from pydispatch.compiler.outline.explain import FusionReport, listing
from pydispatch.compiler.outline.extern import outline_externs
from pydispatch.compiler.outline.form import form_dispatches, host_functions
from pydispatch.compiler.outline.share import share_executables
from pydispatch.compiler.target.backend import Dump, require_backend
from pydispatch.compiler.target.cpu import without_fallbacks
from pydispatch.compiler.target.select import in_written_order, select_targets
from pydispatch.compiler.target.variants import Folders
from pydispatch.compiler.worker import llvm_process
from pydispatch.errors import CompileError
from pydispatch.faults import translated
from pydispatch.files import writing
from pydispatch.formats.artifact import choices, dispatches
from pydispatch.formats.artifact.choices import Choice
from pydispatch.formats.artifact.manifest import FunctionEntry
from pydispatch.formats.program.program import disassemble
from pydispatch.frontends.source import ReadOptions
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.functions import FUNCTIONS, symbol_name
from pydispatch.ir.structured import reading

if TYPE_CHECKING:
    from pydispatch.compiler.fusion.im2col import Convolution
    from pydispatch.compiler.match.python.apply import Candidate
    from pydispatch.formats.artifact.artifact import Artifact


@dataclass(frozen=True)
class Options:
    """Options of one compilation.

    Attributes:
        targets: Names of targets, None for those of the module.
        cpu: CPU names; each gets a variant.
        cpu_features: LLVM features for every CPU target.
        object_search_path: Folders that are searched for object files.
        source_folders: Folders of the program and of the specs.
        reading: How frontends read the source.
        dump: Receives (file name, content) of every intermediate form.
        rewrites: Specs and patterns to apply.
        reassociate, progress: As in `compile`.
        chooser: Chooses between alternative implementations of a computation.
    """

    targets: tuple[str, ...] | None = None
    cpu: tuple[str, ...] = ()
    cpu_features: str = ""
    object_search_path: tuple[str, ...] = ()
    source_folders: tuple[str, ...] = ()
    reading: ReadOptions = field(default_factory=ReadOptions)
    dump: Dump | None = None
    rewrites: Rewrites = field(default_factory=Rewrites)
    reassociate: bool = True
    progress: Callable[[Progress], object] | None = None
    chooser: Chooser | None = None


@translated()
def compile(
    source: Any,
    *,
    targets: str | Sequence[str] | None = None,
    cpu: str | Sequence[str] | None = None,
    cpu_features: str = "",
    object_search_path: Sequence[str | os.PathLike[str]] = (),
    dump: str | os.PathLike[str] | None = None,
    transform_spec: Any = None,
    pdl_spec: Any = None,
    patterns: Sequence[Any] = (),
    require_match: bool = False,
    explain: bool = False,
    reassociate: bool = True,
    kernels: Mapping[str, Any] | None = None,
    weights: str = "embed",
    inputs: Mapping[str, Sequence[int | str]] | None = None,
    constants: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], object] | None = None,
    chooser: Chooser | None = None,
) -> Artifact:
    """Compile a program into an artifact; source, options and errors as of `pydispatch.compile`.

    chooser: see `Chooser`; that of `pydispatch.compile(tune=)` measures.
    """
    reading_options = arguments.read_options(kernels, weights, inputs, constants)
    options, module = _prepare(source, targets, cpu, cpu_features, object_search_path, dump, reading_options)
    explain = arguments.flag("explain", explain)
    options = replace(
        options, reassociate=arguments.flag("reassociate", reassociate),
        progress=arguments.called("progress", progress), chooser=chooser,
    )  # fmt: skip
    options = _with_rewrites(options, transform_spec, pdl_spec, patterns, require_match, reading_options)
    pipeline = Pipeline(module, options)
    with _reporting(source, reading_options, options, Pipeline.artifact):
        artifact = pipeline.artifact()
    if explain:
        shown = dispatches.render(listing(pipeline.reports, pipeline.module), _choices(options))
        sys.stderr.write(shown + "\n")
    return artifact


@translated()
def compile_formed(module: ModuleOp, options: Options, reports: Sequence[FusionReport]) -> Artifact:
    """Compile a program whose dispatches are formed already, and return its artifact. The program is changed.
    reports: of its functions.
    """
    pipeline = Pipeline(module, options)
    with reading():
        pipeline.interfaces = _interfaces(module)
        pipeline.reports = list(reports)
        pipeline.derive(DerivedFunctions(module))
    pipeline.done = "dispatches"
    return pipeline.artifact()


@translated()
def compile_to(
    phase: str,
    source: Any,
    *,
    targets: str | Sequence[str] | None = None,
    cpu: str | Sequence[str] | None = None,
    cpu_features: str = "",
    object_search_path: Sequence[str | os.PathLike[str]] = (),
    dump: str | os.PathLike[str] | None = None,
    transform_spec: Any = None,
    pdl_spec: Any = None,
    patterns: Sequence[Any] = (),
    require_match: bool = False,
    kernels: Mapping[str, Any] | None = None,
    weights: str = "embed",
    inputs: Mapping[str, Sequence[int | str]] | None = None,
    constants: Mapping[str, Any] | None = None,
    elide_bytes: int | None = None,
) -> str:
    """Compile a program up to a phase (see `phases.PHASE_NAMES`), and return its text. CompileError for an unknown
    phase.

    elide_bytes: as of `ir.print_module`; other options as of `compile`.
    """
    if not isinstance(phase, str) or phase not in PHASE_NAMES:
        raise CompileError(f"there is no phase '{phase}'", note=f"phases: {', '.join(PHASE_NAMES)}")
    reading_options = arguments.read_options(kernels, weights, inputs, constants)
    options, module = _prepare(source, targets, cpu, cpu_features, object_search_path, dump, reading_options)
    options = _with_rewrites(options, transform_spec, pdl_spec, patterns, require_match, reading_options)
    text_after = partial(Pipeline.text_after, phase=PHASE_NAMES[phase], elide_bytes=elide_bytes)
    with _reporting(source, reading_options, options, text_after):
        return text_after(Pipeline(module, options))


def _reporting(
    source: Any, reading: ReadOptions, options: Options, run: Callable[[Pipeline], object]
) -> AbstractContextManager[None]:
    """Return a context that adds a reduced program to compiler faults raised while the source is compiled.

    run: compiles with a pipeline as the block does; the reduction repeats it on smaller programs.
    """
    quiet = replace(options, dump=None, progress=None, chooser=None)
    return reporting(lambda: load_source(source, options=reading)[0], lambda module: run(Pipeline(module, quiet)))


def _prepare(
    source: Any,
    targets: str | Sequence[str] | None,
    cpu: str | Sequence[str] | None,
    cpu_features: str,
    object_search_path: Sequence[str | os.PathLike[str]],
    dump: str | os.PathLike[str] | None,
    read_options: ReadOptions | None = None,
) -> tuple[Options, ModuleOp]:
    options = Options(
        targets=arguments.names("targets", targets, "'cpu'"),
        cpu=arguments.names("cpu", cpu, "'native'") or (),
        cpu_features=arguments.text("cpu_features", cpu_features, "'+avx2,+fma'"),
        object_search_path=tuple(arguments.folders("object_search_path", object_search_path)),
        dump=None if dump is None else dump_into(arguments.dump_folder("dump", dump)),
        reading=read_options or ReadOptions(),
    )
    module, paths = load_source(source, options=read_options)
    options = replace(options, source_folders=tuple(dict.fromkeys(str(path.parent) for path in paths)))
    return options, module


def _with_rewrites(
    options: Options, transform_spec: Any, pdl_spec: Any, patterns: Sequence[Any], require_match: bool,
    read_options: ReadOptions,
) -> Options:  # fmt: skip
    require_match = arguments.flag("require_match", require_match)
    no_patterns = isinstance(patterns, (list, tuple)) and not patterns
    if transform_spec is None and pdl_spec is None and no_patterns and not read_options.kernels:
        return options
    rewrites, folders = rewrites_of(transform_spec, pdl_spec, patterns, require_match, load_source)
    rewrites.rewrites += patterns_of(patterns_for(read_options.kernels))
    return replace(options, rewrites=rewrites, source_folders=(*options.source_folders, *folders))


_DUMPED_BYTES = 1 << 14
"""Maximum size in bytes of a constant that dumps contain; larger ones make files that editors cannot display."""


def dump_into(folder: Path) -> Dump:
    """Return a function that writes intermediates as files of `folder`."""

    def write(name: str, content: bytes | str) -> Path:
        data = content.encode() if isinstance(content, str) else content
        with writing("an intermediate", folder / name):
            (folder / name).write_bytes(data)
        return folder / name

    return write


class Pipeline:
    """State of one compilation. Each phase rewrites `module` in place."""

    def __init__(self, module: ModuleOp, options: Options) -> None:
        self.module, self.options = module, options
        self.added = added_patterns()
        self.added.targets = options.rewrites.targets = self._formats
        if options.chooser is not None:
            options.rewrites.decide = partial(options.chooser.matches, self)
        self.done = ""
        self.reports: list[FusionReport] = []
        self.interfaces: dict[str, FunctionEntry] = {}
        self.tracker = Tracker(options.progress)

    def run_to(self, phase: str) -> None:
        """Run the phases up to and including `phase` that have not run yet (all but the last work on the module)."""
        with reading():
            self._run_phases(phase)

    def _run_phases(self, phase: str) -> None:
        """Run the phases that have not run yet, up to and including `phase`."""
        for name in PHASES[PHASES.index(self.done) + 1 if self.done else 0 : PHASES.index(phase) + 1]:
            self.tracker.phase(name)
            if name == "input":
                self._lower_input()
            elif name == "preprocessing":
                self._rewrite(name)
            elif name == "global-optimization":
                normalize(self.module, self.options.reassociate)
                self._rewrite(name)
                normalize(self.module, self.options.reassociate)  # What a replacement brought.
            elif name == "dispatches":
                if not self._stop:
                    report_asserts(self.module)
                outline_externs(self.module)
                inline_calls(self.module)
                self.interfaces = _interfaces(self.module)
                self._form()
            elif name == "executables":
                self._expand()
            run_added_passes(name, self.module)
            self.done = name
            if self.options.dump and name != "program":
                self.options.dump(f"module.{name}.mlir", ir.print_module(self.module, _DUMPED_BYTES))

    def _lower_input(self) -> None:
        """Apply the rewrites of the input phase, then lower the operations of frontends' dialects."""
        self._rewrite("input")
        if self.options.dump:
            self.options.dump("module.source.mlir", ir.print_module(self.module, _DUMPED_BYTES))
        self.module = lower_input(self.module, self.options.reading)

    def _form(self) -> None:
        """Derive constants and form the dispatches of the host functions."""
        functions = DerivedFunctions(self.module)
        if levels := self._levels:
            products, *others = {level.byte_products for level in levels}
            for function in host_functions(self.module):
                multiply_integers(function, "" if others else products)
                requantize(function)
        for function in host_functions(self.module):
            put_channels_last(function, floats=bool(levels))
        hoist_constants(self.module, functions)
        hosts = [op for op in host_functions(self.module) if DERIVED not in op.attributes]
        self.reports = self._formed(hosts)
        if self.options.chooser is not None:
            self.options.chooser.dispatches(self)
        self.derive(functions)

    def derive(self, functions: DerivedFunctions) -> None:
        """Pack constants into panels and form the dispatches of the functions that derive constants."""
        if levels := self._levels:
            pack_constants(self.module, functions, levels)
        self.reports += self._formed(list(functions.made.values()))

    def _formed(self, functions: Sequence[Operation]) -> list[FusionReport]:
        """Form the dispatches of functions within the limits of all targets, and return a report for each."""
        limits = (min(self._bindings, default=most) for most in (MOST_TENSORS, MOST_BINDINGS))
        legality = Legality(partial(why_not, chains=bool(self._levels)), space_of, *limits)
        chooser = self.options.chooser
        patches = None if chooser is None else partial(chooser.convolutions, self)
        return form_dispatches(self.module, legality, self.options.reassociate, functions, patches)

    def _rewrite(self, phase: str) -> None:
        self.options.rewrites.apply(phase, self.module)
        self.added.apply(phase, self.module)

    def targets(self) -> list[hal.ExecutableTargetAttr]:
        options = self.options
        is_single = options.chooser is not None  # measurements are of code for one CPU
        return select_targets(self.module, options.targets, options.cpu, options.cpu_features, is_single)

    @cached_property
    def _levels(self) -> list[Level]:
        """The CPU levels by which chains of products, constant panels and products of bytes are chosen; none unless
        the kernels of all targets are the CPU's, which compute products in blocks of registers from panels."""
        if not self.options.reassociate:
            return []
        with suppress(CompileError):  # targets that are refused, when their variants are made
            machines = [require_backend(target).contract_machine(target) for target in self.targets()]
            cpus = [machine for machine in machines if machine is not None]
            return list(map(level_of, without_fallbacks(cpus))) if len(cpus) == len(machines) else []
        return []

    @cached_property
    def _stop(self) -> bool:
        """Whether the kernels of all targets stop at a failed assertion."""
        with suppress(CompileError):
            return all(require_backend(target).stops for target in self.targets())
        return True

    @cached_property
    def _bindings(self) -> list[int]:
        """For each target with a limit, the maximum number of tensors that a dispatch reads and writes."""
        with suppress(CompileError):
            known = [require_backend(target).most_tensors for target in self.targets()]
            return [n for n in known if n is not None]
        return []

    def _formats(self) -> tuple[str, ...]:
        return tuple(target.format.data for target in self.targets())

    def _expand(self) -> None:
        options, targets = self.options, self.targets()
        if not options.reassociate:
            targets = [in_written_order(target) for target in targets]
        share_executables(self.module, self.reports, targets)
        expand_executables(
            self.module, Selection(targets, options.targets is not None, options.cpu, options.cpu_features)
        )

    def text_after(self, phase: str, elide_bytes: int | None = None) -> str:
        """Run the pipeline up to a phase, and return the module, or the host program, as text."""
        self.run_to(phase)
        if phase != "program":
            return ir.print_module(self.module, elide_bytes)
        program, _ = schedule(self.module)
        return disassemble(program.encode())

    def artifact(self) -> Artifact:
        """Run every phase and pack the result."""
        from pydispatch.formats.artifact import artifact as formats

        options = self.options
        self.run_to("executables")
        self.tracker.phase("program")
        program, constants = schedule(self.module)
        contracts, numbers = contract_program(self.module)
        folders = Folders(options.source_folders, options.object_search_path)
        executables = emit_executables(self.module, folders, options.dump, self.tracker, numbers)
        data = program.encode()
        self.done = "program"
        if options.dump:
            options.dump("program.txt", disassemble(data))
        self.tracker.end()
        listed = listing(self.reports, self.module)
        if logs.compiler.has_debug:
            shown = dispatches.render(listed, _choices(options))
            logs.compiler.debug("dispatches, and why neighbours are apart:\n%s", shown)
        public = [f.name for f in program.functions if f.public] + [p.name for p in program.procedures if p.public]
        return formats.Artifact.build(
            functions=[self.interfaces[name] for name in public],
            program=data,
            executables=executables,
            constants=list(constants.arrays.values()),
            producers=producers(),
            dispatches=dispatches.encode(listed),
            choices=choices.encode(_choices(options)),
            contracts=contracts,
        )


class Chooser(Protocol):
    """Policy that chooses between alternative implementations of a computation.

    choices: the decisions made so far, which the artifact records.
    """

    choices: list[Choice]

    def matches(self, compilation: Pipeline, candidates: Sequence[Candidate]) -> Sequence[bool]:
        """Return which matches of patterns are replaced by their kernels."""

    def convolutions(self, compilation: Pipeline, candidates: Sequence[Convolution]) -> Sequence[bool]:
        """Return which convolutions of a function become products of columns."""

    def dispatches(self, compilation: Pipeline) -> None:
        """Change the formed dispatches of a compilation in place."""


def _choices(options: Options) -> Sequence[Choice]:
    return () if options.chooser is None else options.chooser.choices


def _interfaces(module: ModuleOp) -> dict[str, FunctionEntry]:
    """Return the interface that callers see of each public function, by its name."""
    functions = [op for op in module.body.block.ops if op.name in FUNCTIONS and op.regions[0].blocks]
    return {symbol_name(op): interface_of(op) for op in functions if not {INITIALIZER, DERIVED} & op.attributes.keys()}


def producers() -> dict[str, str]:
    """Return the versions of the tools that decide the bytes of an artifact, by tool."""
    llvm = ".".join(str(n) for n in llvm_process.version())
    return {"llvm": llvm, **_packages(), "toolchain": devlib.compiler()}


@cache
def _packages() -> dict[str, str]:
    from importlib.metadata import version  # which parses a file each time

    return {name: version(name) for name in ("llvmlite", "xdsl")}
