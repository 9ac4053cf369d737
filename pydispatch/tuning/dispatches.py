"""Tunables that are dispatches, and trial programs that run one dispatch alone."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from pydispatch import ir
from pydispatch.compiler.driver.options import Options
from pydispatch.compiler.driver.pipeline import compile_formed
from pydispatch.compiler.match import Rewrites
from pydispatch.compiler.outline.explain import FusionReport
from pydispatch.errors import CompileError
from pydispatch.ir.core.symbols import renamed
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.functions import symbol_name
from pydispatch.tuning.standalone import add_standalone, fewest_constants, is_constant
from pydispatch.tuning.tunable import Trial, TrialBuilder, Tunable


class DispatchTunable(Tunable):
    """Export of an executable: the kernel that one or more dispatches of the program run.

    `flow.dispatch @matmul_exe::@matmul(%a, %b)` runs the export `@matmul` of the executable `@matmul_exe`.

    Args:
        executable: The executable, which `apply` changes.
        export: Name of the export.
        uses: The dispatches of the export; their number becomes `calls`.

    Attributes:
        subject: Name of the export.
        use: Dispatch of the export that is measured. It is the one with the fewest constant operands, see
            `fewest_constants`.
        needed_imports: Symbols that the export's default configuration imports when a program is loaded. Where they are
            missing, that configuration cannot be measured.
    """

    needed_imports: Sequence[str] = ()

    def __init__(self, executable: Operation, export: str, uses: Sequence[flow.DispatchOp]) -> None:
        """Choose the dispatch to measure, and compute the key of measurements from the executable's text."""
        self.executable, self.subject, self.calls = executable, export, len(uses)
        self.use = fewest_constants(uses)
        self.key = self._text()

    @abstractmethod
    def prepare(self, executable: Operation, config: str) -> None:
        """Apply a configuration to `executable`, which belongs to the program, or is a copy of it for a trial."""

    def apply(self, config: str) -> None:
        """Apply a configuration to the executable of the program that is being compiled."""
        self.prepare(self.executable, config)

    def _text(self) -> str:
        """Return the key of the tunable: the executable's text with canonical names, and the types of its operands.

        A tunable is a dispatch whose configurations are measured. Equal kernels have equal keys in all programs,
        whatever their names: the export is printed as `@export`, the executable as `@executable`, and SSA values as
        numbers. The end of a key is, for example, `(tensor<64x32xf32>, constant tensor<32x16xf32>)`.
        """
        copy = self.executable.clone()
        # Rename the executable, the export, and all references to them; drop the names of values.
        names = {symbol_name(copy): "executable", self.subject: "export"}
        for op in walk(copy):
            for attributes in (op.properties, op.attributes):
                attributes.update({key: renamed(value, names) for key, value in attributes.items()})
                if isinstance(defined := attributes.get("sym_name"), StringAttr):
                    attributes["sym_name"] = StringAttr(names.get(defined.data, defined.data))
            for value in (*op.results, *(a for region in op.regions for b in region.blocks for a in b.args)):
                value.name_hint = None
        text = ir.print_module(ModuleOp([copy]))
        # A constant operand may be packed before the first call, so that the kernel takes another time.
        operands = [f"{'constant ' * is_constant(v)}{v.type}" for v in (*self.use.workload, *self.use.arguments)]
        return f"{text}({', '.join(operands)})"


class Programs(TrialBuilder):
    """Builder of the trial programs that tuning measures: each runs one dispatch of the tuned program alone.

    options: options of the tuned compilation.
    """

    def __init__(self, options: Options) -> None:
        """Adapt the options to trials, which are compiled without dumps, rewrites and progress messages."""
        # The user's rewrites have been applied before dispatches were formed.
        self._options = replace(options, dump=None, rewrites=Rewrites(), progress=None)

    def build(self, wanted: Sequence[tuple[Tunable, str]]) -> Sequence[Trial | None]:
        """Build one program for all dispatches without imports, and one for each other dispatch.

        Loading a program resolves its imports, which may fail; dispatches without imports must not depend on that. If
        the common program does not compile, each dispatch gets its own.
        """
        pairs = [(tunable, config) for tunable, config in wanted if isinstance(tunable, DispatchTunable)]
        assert len(pairs) == len(wanted), "only dispatches are built here"
        together = [(tunable, config) for tunable, config in pairs if not tunable.needed_imports]
        built = dict(zip(together, self._program(together), strict=True))
        if None in built.values() and len(together) > 1:
            built = {}  # compile each alone below
        return [built[pair] if pair in built else self._program([pair])[0] for pair in pairs]

    def _program(self, wanted: Sequence[tuple[DispatchTunable, str]]) -> Sequence[Trial | None]:
        """Compile one program with a function for each dispatch and configuration, and return a trial for each.

        A tunable is a dispatch that has several configurations; a trial is a compiled function that runs it in one.

        The functions are `trial_0`, `trial_1`, ... in the order of `wanted`. The trials are all None if the program
        does not compile.

        Args:
            wanted: Pairs of a tunable and the name of one of its configurations; a tunable may occur several times.
        """
        if not wanted:
            return []
        # The report lists the dispatches whose executables the compilation may merge into one.
        module, report = ModuleOp([]), FusionReport("trials")
        for trial, (tunable, config) in enumerate(wanted):
            executable = tunable.executable.clone()
            tunable.prepare(executable, config)
            export_name, dispatch = tunable.subject, tunable.use
            report.dispatches.append(add_standalone(module, executable, export_name, dispatch, trial=trial))
        try:
            artifact = compile_formed(module, self._options, [report])
        except CompileError:
            return [None] * len(wanted)
        # In other configurations than the default, a dispatch calls generated fallbacks in place of its imports.
        return [
            Trial(
                artifact,
                function=f"trial_{trial}",
                config=config,
                needed_imports=tunable.needed_imports if config == tunable.default else (),
            )
            for trial, (tunable, config) in enumerate(wanted)
        ]
