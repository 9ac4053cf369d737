"""Compilation of a program to an artifact: parse, preprocess, form dispatches, expand executables, emit, schedule,
package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from pydispatch import ir, logs
from pydispatch.compiler.analysis.interface import interface_of
from pydispatch.compiler.analysis.kinds import MOST_BINDINGS, MOST_TENSORS
from pydispatch.compiler.constants.channels_last import put_channels_last
from pydispatch.compiler.constants.functions import DerivedFunctions
from pydispatch.compiler.constants.hoist import hoist_constants
from pydispatch.compiler.constants.loop_panels import pack_before_loops
from pydispatch.compiler.constants.pack import pack_constants
from pydispatch.compiler.driver.executables import emit_executables
from pydispatch.compiler.driver.options import Options, prepare
from pydispatch.compiler.driver.phases import PHASE_NAMES, PHASES, added_patterns, run_added_passes
from pydispatch.compiler.driver.precision import lower_precision
from pydispatch.compiler.driver.producers import producers
from pydispatch.compiler.driver.progress import Tracker
from pydispatch.compiler.driver.reduction import reporting
from pydispatch.compiler.driver.sources import load_source, lower_input
from pydispatch.compiler.flatten.inline import DERIVED, INITIALIZER, inline_calls
from pydispatch.compiler.fusion.legality import Legality
from pydispatch.compiler.host.contract_program import contract_program
from pydispatch.compiler.host.program import schedule
from pydispatch.compiler.kernels.legality import space_of, why_not
from pydispatch.compiler.kernels.matmul.chain import Chain
from pydispatch.compiler.kernels.matmul.cpu.problem import shares_factor
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, level_of
from pydispatch.compiler.normalize import normalize
from pydispatch.compiler.outline.asserts import report_asserts
from pydispatch.compiler.outline.early_stores import store_early
from pydispatch.compiler.outline.executables import Selection, expand_executables
from pydispatch.compiler.outline.explain import FusionReport, listing
from pydispatch.compiler.outline.extern import outline_externs
from pydispatch.compiler.outline.form import form_dispatches, host_functions
from pydispatch.compiler.outline.saved_rows import save_updated_rows
from pydispatch.compiler.outline.share import share_executables
from pydispatch.compiler.target.backend import require_backend
from pydispatch.compiler.target.cpu import without_fallbacks
from pydispatch.compiler.target.select import in_written_order, select_targets
from pydispatch.compiler.target.variants import Folders
from pydispatch.errors import CompileError
from pydispatch.faults import faults_as_internal_errors
from pydispatch.formats.artifact import choices, dispatches
from pydispatch.formats.artifact.choices import Choice
from pydispatch.formats.artifact.manifest import FunctionEntry
from pydispatch.formats.program.program import disassemble
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.functions import FUNCTIONS, symbol_name
from pydispatch.ir.structured import cached_structures

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pydispatch.compiler.fusion.im2col import Convolution
    from pydispatch.compiler.match.python.apply import Candidate
    from pydispatch.formats.artifact.artifact import Artifact
    from pydispatch.options import CompileOptions


@faults_as_internal_errors()
def compile(source: Any, *, chooser: Chooser | None = None, **options: Unpack[CompileOptions]) -> Artifact:
    """Compile a program into an artifact. Source, options and errors are those of `pydispatch.compile`, without `tune`.

    chooser: chooses between implementations, for `pydispatch.compile(tune=)` by measuring; None for the heuristics.
    """
    module, checked = prepare(source, options)
    pipeline = Pipeline(module, checked, chooser)
    with _reporting(source, checked, repeat=Pipeline.artifact):
        artifact = pipeline.artifact()
    if checked.explain:
        _explain(pipeline)
    return artifact


@faults_as_internal_errors()
def compile_formed(module: ModuleOp, options: Options, reports: Sequence[FusionReport]) -> Artifact:
    """Compile a program whose host functions consist of dispatches already, and return its artifact.

    Tuning compiles the dispatches that it measures this way.

    Args:
        module: The program, which is changed.
        options: Options of the compilation.
        reports: Report of dispatch formation for each host function.
    """
    pipeline = Pipeline(module, options)
    with cached_structures():
        pipeline.interfaces = _interfaces(module)
        pipeline.reports = list(reports)
        pipeline.derive(DerivedFunctions(module))  # packs constants, and forms the dispatches that pack them
    pipeline.done = "dispatches"  # artifact() runs the phases after it
    return pipeline.artifact()


@faults_as_internal_errors()
def compile_to(phase: str, source: Any, *, elide_bytes: int | None = None, **options: Unpack[CompileOptions]) -> str:
    """Compile a program up to a phase (see `phases.PHASE_NAMES`), and return its text. CompileError for an unknown
    phase.

    elide_bytes: constants of more bytes are printed without elements; None prints all. Other options: as of `compile`.
    """
    if not isinstance(phase, str) or phase not in PHASE_NAMES:
        raise CompileError(f"there is no phase '{phase}'", note=f"phases: {', '.join(PHASE_NAMES)}")
    module, checked = prepare(source, options)
    pipeline = Pipeline(module, checked)
    text_after = partial(Pipeline.text_after, phase=PHASE_NAMES[phase], elide_bytes=elide_bytes)
    with _reporting(source, checked, repeat=text_after):
        text = text_after(pipeline)
    if checked.explain:
        _explain(pipeline)
    return text


def _explain(pipeline: Pipeline) -> None:
    """Print to stderr which operations each dispatch contains, and the choices that were measured."""
    shown = dispatches.render(listing(pipeline.reports, pipeline.module), _choices(pipeline.chooser))
    sys.stderr.write("\n".join([shown, *pipeline.notes]) + "\n")


def _reporting(source: Any, options: Options, repeat: Callable[[Pipeline], object]) -> AbstractContextManager[None]:
    """Return a context that adds a reduced program to compiler faults raised while the source is compiled.

    Args:
        source: The program.
        options: Options of the compilation.
        repeat: Runs the phases that the `with` block runs, on a new pipeline. The reduction calls it for smaller and
            smaller programs, and keeps those that raise the same fault.
    """
    quiet = replace(options, dump=None, progress=None)  # repetitions have no effects that the caller sees
    return reporting(
        lambda: load_source(source, options=options.reading)[0], lambda module: repeat(Pipeline(module, quiet))
    )


_DUMPED_BYTES = 1 << 14
"""Maximum size in bytes of a constant that dumps contain; larger ones make files that editors cannot display."""


class Pipeline:
    """Compilation from the parsed program to the artifact, in phases that rewrite `module` in place.

    `artifact` runs all phases; `run_to` and `text_after` stop after one of them, and may be called before `artifact`.

    Args:
        module: The program.
        options: Options of the compilation.
        chooser: Chooses between alternative implementations of a computation; None for the heuristics.
    """

    def __init__(self, module: ModuleOp, options: Options, chooser: Chooser | None = None) -> None:
        """Begin the compilation of `module` with the rewrites of extension packages; no phase has run yet."""
        self.module, self.options, self.chooser = module, options, chooser
        self.added = added_patterns()  # rewrites of extension packages
        self.added.targets = options.rewrites.targets = self._formats  # a function: targets are selected later
        if chooser is not None:
            options.rewrites.decide = partial(chooser.choose_matches, self)  # which matches of patterns to replace
        self.done = ""  # the last completed phase; "" before the first
        self.reports: list[FusionReport] = []  # one per host function, in order of formation
        self.notes: list[str] = []  # sentences that `explain` prints after the reports
        self.interfaces: dict[str, FunctionEntry] = {}  # what callers see of each public function, by its name
        self.tracker = Tracker(options.progress)

    def run_to(self, phase: str) -> None:
        """Run the phases up to and including `phase` that have not run yet. Each of them rewrites the module."""
        with cached_structures():
            self._run_phases(phase)

    def _run_phases(self, phase: str) -> None:
        """Run the phases that have not run yet, up to and including `phase`, and dump the module after each."""
        next_index = PHASES.index(self.done) + 1 if self.done else 0
        for name in PHASES[next_index : PHASES.index(phase) + 1]:
            self.tracker.phase(name)
            self._run_phase(name)
            run_added_passes(name, self.module)
            self.done = name
            if self.options.dump and name != "program":
                self.options.dump(f"module.{name}.mlir", ir.print_module(self.module, _DUMPED_BYTES))

    def _run_phase(self, name: str) -> None:
        """Run one phase. "program", the encoding of the host program, has no step here: `artifact` runs it."""
        if name == "input":
            self._lower_input()
        elif name == "preprocessing":
            self._rewrite(name)
        elif name == "global-optimization":
            normalize(self.module, self.options.reassociate, self._has_invocations)
            self._rewrite(name)
            normalize(self.module, self.options.reassociate, self._has_invocations)  # operations of replacements
        elif name == "dispatches":
            if not self._asserts_stop_kernels:
                report_asserts(self.module)  # kernels that cannot stop record failures in memory
            outline_externs(self.module)  # dispatches of the user's own kernels become executables
            inline_calls(self.module)
            self.interfaces = _interfaces(self.module)
            self._form()
        elif name == "executables":
            self._expand()

    def _lower_input(self) -> None:
        """Apply the rewrites of the input phase, then lower the operations of frontends' dialects."""
        self._rewrite("input")
        if self.options.dump:
            self.options.dump("module.source.mlir", ir.print_module(self.module, elide_bytes=_DUMPED_BYTES))
        self.module = lower_input(self.module, self.options.reading)  # `reading`: options of the frontends

    def _form(self) -> None:
        """Rewrite the host functions for the targets, derive constants, and form dispatches."""
        # Rewrites that do not depend on the targets.
        for function in host_functions(self.module):
            store_early(function)  # moves stores of globals next to the operation that computes the value
            save_updated_rows(function)  # saves updated rows of globals, so that not all rows are copied
        # Precision, layout of images, and values that depend on constants alone, which become functions of the module.
        functions = DerivedFunctions(self.module)
        self.notes += lower_precision(self.module, self.options, self._cpu_levels)
        for function in host_functions(self.module):
            put_channels_last(function, converts_floats=bool(self._cpu_levels))
        hoist_constants(self.module, functions)
        # derive() forms the dispatches of functions of derived constants, after it has packed constants.
        hosts = [op for op in host_functions(self.module) if DERIVED not in op.attributes]
        if self._cpu_levels:
            for function in hosts:
                pack_before_loops(function, self._cpu_levels)
        self.reports = self._formed(hosts)
        if self.chooser is not None:
            self.chooser.configure_dispatches(self)
        self.derive(functions)

    def derive(self, functions: DerivedFunctions) -> None:
        """Pack constants into panels if all targets are CPUs, then form the dispatches of `functions`."""
        if self._cpu_levels:
            pack_constants(self.module, functions, self._cpu_levels)
        self.reports += self._formed(list(functions.added.values()))

    def _formed(self, functions: Sequence[Operation]) -> list[FusionReport]:
        """Form the dispatches of functions within the limits of all targets, and return a report for each."""
        why_apart = partial(why_not, has_chain_kernel=self._has_chain_kernel)  # why two operations can't share a kernel
        # A target's limit holds for dispatches of several operations (tensors) and of a single one (operands) alike.
        # The defaults are the limits if no target has one.
        most_tensors = min(self._binding_limits, default=MOST_TENSORS)
        most_operands = min(self._binding_limits, default=MOST_BINDINGS)
        legality = Legality(why_apart, space_of, most_tensors=most_tensors, most_operands=most_operands)
        choose_convolutions = None if self.chooser is None else partial(self.chooser.choose_convolutions, self)
        # patches: chooses the convolutions that become products of image patches (im2col); None for a heuristic.
        return form_dispatches(
            self.module, legality, self.options.reassociate, functions, patches=choose_convolutions,
            shares=self._shares_matrix,
        )  # fmt: skip

    def _shares_matrix(self, size: int) -> bool:
        """Return whether a product by a matrix of `size` bytes is split, so that each worker reads a part of it.

        It is if that is faster on all targets, which are CPUs.
        """
        return bool(self._cpu_levels) and all(shares_factor(cpu, size) for cpu in self._cpu_levels)

    def _rewrite(self, phase: str) -> None:
        """Apply the rewrites of the options, and those of extensions, that belong to a phase."""
        self.options.rewrites.apply(phase, self.module)
        self.added.apply(phase, self.module)

    def targets(self) -> list[hal.ExecutableTargetAttr]:
        """Return the targets to compile for: those that the options name, or else those that the module states."""
        options = self.options
        is_single = self.chooser is not None  # measurements are of code for one CPU
        return select_targets(self.module, options.targets, options.cpu, options.cpu_features, is_single)

    @cached_property
    def _cpu_levels(self) -> list[Level]:
        """CPU levels of the targets, by which panels of constants and products of bytes are chosen.

        Empty unless all targets are CPUs, whose kernels compute products from panels in register blocks, and empty if
        sums of floats may not be reordered. Levels that others of the list include are left out.
        """
        if not self.options.reassociate:
            return []
        with suppress(CompileError):  # a target that is not supported is reported later, by _expand()
            machines = [require_backend(target).cpu_machine(target) for target in self.targets()]
            cpus = [machine for machine in machines if machine is not None]  # None: the target is no CPU
            return list(map(level_of, without_fallbacks(cpus))) if len(cpus) == len(machines) else []
        return []

    @property
    def _has_chain_kernel(self) -> Callable[[Chain], bool] | None:
        """Function that returns whether all targets have a kernel for a chain of two contractions.

        A chain is two contractions with row-wise operations between them, such as attention, that one dispatch can
        compute. None if a target has no kernel for any chain, or if sums of floats may not be reordered, as such
        kernels do.
        """
        if not self.options.reassociate:
            return None
        with suppress(CompileError):  # a target that is not supported is reported later, by _expand()
            backends = {target: require_backend(target) for target in self.targets()}
            # Only GPUs (`has_invocations`) and CPUs (`cpu_machine`) have such kernels; another backend may be neither.
            if not all(b.has_invocations or b.cpu_machine(target) for target, b in backends.items()):
                return None
            if not any(backend.has_invocations for backend in backends.values()):
                return lambda chain: True  # CPUs have a kernel for every chain
            from pydispatch.compiler.kernels.matmul.gpu.chain import has_chain_kernel

            return has_chain_kernel
        return None

    @cached_property
    def _has_invocations(self) -> bool:
        """Whether a target distributes kernels over invocations; True for an unknown target, see _expand()."""
        with suppress(CompileError):
            return any(require_backend(target).has_invocations for target in self.targets())
        return True

    @cached_property
    def _asserts_stop_kernels(self) -> bool:
        """Whether the kernels of all targets stop at a failed assertion."""
        with suppress(CompileError):  # a target that is not supported is reported later, by _expand()
            return all(require_backend(target).stops for target in self.targets())
        return True

    @cached_property
    def _binding_limits(self) -> list[int]:
        """For each target with a limit, the maximum number of tensors that a dispatch reads and writes."""
        with suppress(CompileError):  # a target that is not supported is reported later, by _expand()
            known = [require_backend(target).most_tensors for target in self.targets()]
            return [n for n in known if n is not None]
        return []

    def _formats(self) -> tuple[str, ...]:  # of the targets
        return tuple(target.format.data for target in self.targets())

    def _expand(self) -> None:
        """Merge equal executables, and add a variant for each target to each of them (phase "executables")."""
        options, targets = self.options, self.targets()
        if not options.reassociate:
            targets = [in_written_order(target) for target in targets]  # kernels add floats in that order
        share_executables(self.module, self.reports, targets)
        are_named = options.targets is not None
        selection = Selection(targets, explicit=are_named, levels=options.cpu, features=options.cpu_features)
        expand_executables(self.module, selection)

    def text_after(self, phase: str, elide_bytes: int | None = None) -> str:
        """Run the pipeline up to a phase, and return the module, or after "program" the host program, as text."""
        self.run_to(phase)
        if phase != "program":
            return ir.print_module(self.module, elide_bytes)
        program, _ = schedule(self.module)
        return disassemble(program.encode())

    def artifact(self) -> Artifact:
        """Run the phases that have not run yet, and return the artifact."""
        from pydispatch.formats.artifact import artifact as formats

        options = self.options
        self.run_to("executables")
        self.tracker.phase("program")
        program, constants = schedule(self.module)
        contracts, contract_indices = contract_program(self.module)  # which elements exports access
        folders = Folders(options.source_folders, options.object_search_path)
        executables = emit_executables(self.module, folders, options.dump, self.tracker, contract_indices)
        data = program.encode()
        self.done = "program"
        if options.dump:
            options.dump("program.txt", disassemble(data))
        self.tracker.end()
        listed = listing(self.reports, self.module)
        if logs.compiler.has_debug:
            shown = dispatches.render(listed, _choices(self.chooser))
            logs.compiler.debug("dispatches, and why neighbours are apart:\n%s", shown)
        public = [f.name for f in program.functions if f.public] + [p.name for p in program.procedures if p.public]
        return formats.Artifact.build(
            functions=[self.interfaces[name] for name in public],
            program=data,
            executables=executables,
            constants=list(constants.arrays.values()),
            producers=producers(),
            dispatches=dispatches.encode(listed),
            choices=choices.encode(_choices(self.chooser)),
            contracts=contracts,
        )


class Chooser(Protocol):
    """Policy that chooses between alternative implementations of a computation.

    choices: the decisions so far, in order; the artifact records them.
    """

    choices: list[Choice]

    def choose_matches(self, compilation: Pipeline, candidates: Sequence[Candidate]) -> Sequence[bool]:
        """Return for each match of patterns whether it is replaced by its kernel."""

    def choose_convolutions(self, compilation: Pipeline, candidates: Sequence[Convolution]) -> Sequence[bool]:
        """Return for each convolution of a function whether it becomes a matrix product of image patches (im2col)."""

    def configure_dispatches(self, compilation: Pipeline) -> None:
        """Choose configurations of the formed dispatches of a compilation, and change the dispatches in place."""


def _choices(chooser: Chooser | None) -> Sequence[Choice]:
    """Return what the chooser has chosen so far; nothing without a chooser."""
    return () if chooser is None else chooser.choices


def _interfaces(module: ModuleOp) -> dict[str, FunctionEntry]:
    """Return the interface that callers see of each public function, by its name.

    Private functions are gone by now, as calls of them were inlined, except those that run when a program is loaded:
    initializers of globals (INITIALIZER), and functions that compute constants from other constants (DERIVED). A
    function without a body is a host command, which the program calls.
    """
    functions = [op for op in module.body.block.ops if op.name in FUNCTIONS and op.regions[0].blocks]
    return {symbol_name(op): interface_of(op) for op in functions if not {INITIALIZER, DERIVED} & op.attributes.keys()}
