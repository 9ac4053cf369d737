"""Convolutions that may be computed as they are, or as products of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult

from pydispatch import ir
from pydispatch.compiler.driver.pipeline import Options, Pipeline
from pydispatch.compiler.fusion.im2col import Convolution, pays
from pydispatch.compiler.fusion.words import place_of
from pydispatch.compiler.match import Rewrites
from pydispatch.compiler.match.python.apply import Candidate
from pydispatch.errors import CompileError
from pydispatch.formats.artifact.choices import Choice
from pydispatch.ir.core.walk import walk
from pydispatch.tuning.parts import program_of
from pydispatch.tuning.site import Builder, Built, Site

COLUMNS, DIRECT = "a product of columns", "the convolution itself"


class ConvolutionSite(Site):
    """program: of the convolution alone, with the padding of its image. columns: what is chosen."""

    def __init__(self, convolution: Convolution, program: ModuleOp, key: str, calls: int) -> None:
        self.subject, self.program, self.key, self.calls = place_of(convolution.op), program, key, calls
        self.columns = pays(convolution)
        self.default = COLUMNS if self.columns else DIRECT

    def near(self, name: str) -> Sequence[str]:
        return [COLUMNS, DIRECT]

    def is_legal(self, name: str) -> bool:
        return name in (COLUMNS, DIRECT)

    def choose(self, name: str) -> None:
        self.columns = name == COLUMNS


@dataclass
class Fixed:
    """The `pipeline.Chooser` of programs that are measured."""

    columns: bool
    choices: list[Choice] = field(default_factory=list)

    def matches(self, compilation: Pipeline, candidates: Sequence[Candidate]) -> Sequence[bool]:
        return [True] * len(candidates)

    def convolutions(self, compilation: Pipeline, candidates: Sequence[Convolution]) -> Sequence[bool]:
        return [self.columns] * len(candidates)

    def dispatches(self, compilation: Pipeline) -> None:
        """Leave them as they are."""


class ConvolutionPrograms(Builder):
    """options: of the compilation that the convolutions are of."""

    def __init__(self, options: Options) -> None:
        self._options = replace(options, dump=None, progress=None)

    def build(self, wanted: Sequence[tuple[Site, str]]) -> Sequence[Built | None]:
        return [self._program(site, way) for site, way in wanted if isinstance(site, ConvolutionSite)]

    def _program(self, site: ConvolutionSite, way: str) -> Built | None:
        options = replace(self._options, rewrites=Rewrites(), chooser=Fixed(way == COLUMNS))
        try:
            return Built(Pipeline(site.program.clone(), options).artifact(), "trial", way)
        except CompileError:
            return None


def convolution_sites(convolutions: Sequence[Convolution]) -> Mapping[ConvolutionSite, Sequence[int]]:
    """Return the sites of convolutions that can be measured alone, each with the indices of the equal `convolutions`. A
    convolution of a dynamic number of images cannot be measured alone.
    """
    sites: dict[str, tuple[ConvolutionSite, list[int]]] = {}
    for index, convolution in enumerate(convolutions):
        image = convolution.image
        ops = {convolution.op, *([image.op] if isinstance(image, OpResult) and image.op.name == "tensor.pad" else [])}
        program = program_of(ops, convolution.op.results) if min(convolution.sizes) >= 0 else None
        if program is not None:
            for op in walk(program):
                for value in (*op.results, *(a for region in op.regions for b in region.blocks for a in b.args)):
                    value.name_hint = None
            key = ir.print_module(program)
            site, places = sites.setdefault(key, (ConvolutionSite(convolution, program, key, 0), []))
            places.append(index)
            site.calls = len(places)
    return dict(sites.values())
