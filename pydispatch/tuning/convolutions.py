"""Tunables of convolutions: direct, or as a matrix product of im2col panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult

from pydispatch import ir
from pydispatch.compiler.driver.options import Options
from pydispatch.compiler.driver.pipeline import Pipeline
from pydispatch.compiler.fusion.im2col import Convolution, im2col_pays
from pydispatch.compiler.fusion.naming import describe_location
from pydispatch.compiler.match import Rewrites
from pydispatch.compiler.match.python.apply import Candidate
from pydispatch.errors import CompileError
from pydispatch.formats.artifact.choices import Choice
from pydispatch.ir.core.walk import walk
from pydispatch.tuning.parts import program_of
from pydispatch.tuning.tunable import Trial, TrialBuilder, Tunable

COLUMNS, DIRECT = "a product of columns", "the convolution itself"
"""Names of the configurations, as reports show them: the product with an im2col matrix, and the direct convolution."""


class ConvolutionTunable(Tunable):
    """Convolution with two configurations: direct and im2col.

    Attributes:
        program: Program of this convolution alone, with the padding of its image, as the function `trial`.
        key: Text of `program`, which is equal for equal convolutions: the key of measurements.
        calls: Number of equal convolutions in the program that is compiled.
        columns: Whether im2col is chosen: by `im2col_pays` until `apply` is called.
    """

    def __init__(self, convolution: Convolution, program: ModuleOp, key: str, calls: int) -> None:
        """Choose the default configuration. For the other arguments see the attributes of the class."""
        self.subject, self.program, self.key, self.calls = describe_location(convolution.op), program, key, calls
        self.columns = im2col_pays(convolution)
        self.default = COLUMNS if self.columns else DIRECT

    def neighbours(self, config: str) -> Sequence[str]:
        """Return both configurations, whichever `config` is the best so far."""
        return [COLUMNS, DIRECT]

    def is_legal(self, config: str) -> bool:
        """Return whether a name, which may be read from a file, is one of the two configurations."""
        return config in (COLUMNS, DIRECT)

    def apply(self, config: str) -> None:
        """Choose im2col or the direct convolution for the program that is being compiled."""
        self.columns = config == COLUMNS


@dataclass
class FixedChooser:
    """`pipeline.Chooser` of trial programs, with one fixed choice.

    Attributes:
        columns: Whether convolutions become products of im2col matrices.
        choices: Choices to report: none.
    """

    columns: bool
    choices: list[Choice] = field(default_factory=list)

    def choose_matches(self, compilation: Pipeline, candidates: Sequence[Candidate]) -> Sequence[bool]:
        """Replace all matches of patterns by their kernels."""
        return [True] * len(candidates)

    def choose_convolutions(self, compilation: Pipeline, candidates: Sequence[Convolution]) -> Sequence[bool]:
        """Return the fixed choice for each convolution of a trial program."""
        return [self.columns] * len(candidates)

    def configure_dispatches(self, compilation: Pipeline) -> None:
        """Leave dispatches unchanged."""


class ConvolutionPrograms(TrialBuilder):
    """Builder of the programs by which tuning measures forms of a convolution. options: of the tuned compilation."""

    def __init__(self, options: Options) -> None:
        """Adapt the options to trials, which are compiled without dumps, rewrites and progress messages."""
        # The user's rewrites have been applied to the convolutions already.
        self._options = replace(options, dump=None, rewrites=Rewrites(), progress=None)

    def build(self, wanted: Sequence[tuple[Tunable, str]]) -> Sequence[Trial | None]:
        """Return a program for each pair of a convolution and a configuration; other tunables are skipped."""
        return [self._program(tunable, config) for tunable, config in wanted if isinstance(tunable, ConvolutionTunable)]

    def _program(self, tunable: ConvolutionTunable, config: str) -> Trial | None:
        """Compile the program of a convolution alone in a configuration; return None if it does not compile."""
        pipeline = Pipeline(tunable.program.clone(), self._options, FixedChooser(columns=config == COLUMNS))
        try:
            return Trial(pipeline.artifact(), function="trial", config=config)
        except CompileError:
            return None


def convolution_tunables(convolutions: Sequence[Convolution]) -> Mapping[ConvolutionTunable, Sequence[int]]:
    """Return the tunables of convolutions that can be measured alone, each with the indices of equal `convolutions`.

    A tunable is a computation whose configurations are measured: here a convolution, with the `tensor.pad` of its image
    if it has one, in a program of its own. A convolution with a dynamic batch size cannot be measured alone.
    Convolutions whose programs print alike are equal and share a tunable, whose `calls` is their number.
    """
    tunables: dict[str, tuple[ConvolutionTunable, list[int]]] = {}
    for index, convolution in enumerate(convolutions):
        image = convolution.image
        ops = {convolution.op, *([image.op] if isinstance(image, OpResult) and image.op.name == "tensor.pad" else [])}
        is_static = min(convolution.sizes) >= 0  # a dynamic size is negative
        program = program_of(ops, convolution.op.results) if is_static else None
        if program is not None:
            for op in walk(program):  # equal convolutions print alike only without the names of values
                for value in (*op.results, *(a for region in op.regions for b in region.blocks for a in b.args)):
                    value.name_hint = None
            key = ir.print_module(program)
            tunable, indices = tunables.setdefault(key, (ConvolutionTunable(convolution, program, key, calls=0), []))
            indices.append(index)
            tunable.calls = len(indices)
    return dict(tunables.values())
