"""Options of one compilation: the arguments of `pydispatch.compile`, checked and completed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp

from pydispatch.compiler.driver import arguments
from pydispatch.compiler.driver.progress import Progress
from pydispatch.compiler.driver.sources import load_source
from pydispatch.compiler.match import Rewrites, rewrites_by_patterns, rewrites_of
from pydispatch.compiler.match.custom import custom_operation_patterns, kernel_hints
from pydispatch.compiler.target.backend import Dump
from pydispatch.errors import InvalidArgumentError
from pydispatch.files import writing
from pydispatch.formats.artifact.members import path_part
from pydispatch.frontends.source import ReadOptions
from pydispatch.options import CompileOptions, completed


@dataclass(frozen=True)
class Options:
    """Checked options of one compilation. Those that are not described here are as of `pydispatch.compile`.

    Attributes:
        source_folders: Folders of the program and of the specs.
        reading: Options of the frontends, which read the source.
        dump: Receives (file name, content) of every intermediate form.
        rewrites: Specs and patterns to apply.
    """

    targets: tuple[str, ...] | None = None
    cpu: tuple[str, ...] = ()
    cpu_features: str = ""
    object_search_path: tuple[str, ...] = ()
    source_folders: tuple[str, ...] = ()
    reading: ReadOptions = field(default_factory=ReadOptions)
    dump: Dump | None = None
    rewrites: Rewrites = field(default_factory=Rewrites)
    explain: bool = False
    reassociate: bool = True
    activation_bits: int = 24
    weight_type: BFloat16Type | Float16Type | None = None
    precision: BFloat16Type | None = None
    progress: Callable[[Progress], object] | None = None


def prepare(source: Any, options: CompileOptions) -> tuple[ModuleOp, Options]:
    """Check the options, load the program and the specs of rewrites, and return the program and the checked options.

    Raises:
        InvalidArgumentError: An option has a wrong type or value.
        CompileError: The program or a spec cannot be read.
    """
    stated = completed(options)
    checked = Options(
        targets=arguments.names("targets", stated["targets"], example="'cpu'"),
        cpu=arguments.names("cpu", stated["cpu"], example="'native'") or (),
        cpu_features=arguments.text("cpu_features", stated["cpu_features"], example="'+avx2,+fma'"),
        object_search_path=tuple(arguments.folders("object_search_path", stated["object_search_path"])),
        dump=None if stated["dump"] is None else dump_into(arguments.dump_folder("dump", stated["dump"])),
        reading=arguments.read_options(stated["kernels"], stated["weights"], stated["inputs"], stated["constants"]),
        explain=arguments.flag("explain", stated["explain"]),
        reassociate=arguments.flag("reassociate", stated["reassociate"]),
        activation_bits=arguments.one_of("activation_bits", stated["activation_bits"], choices=(24, 16, 8)),
        weight_type=arguments.half_type("weight_type", stated["weight_type"]),
        precision=arguments.precision("precision", stated["precision"]),
        progress=arguments.function_or_none("progress", stated["progress"]),
    )
    # `precision` is bf16 or None, so that another `weight_type` is f16.
    if checked.precision is not None and checked.weight_type not in (None, checked.precision):
        raise InvalidArgumentError("precision='bf16' rounds weights to bf16, too; leave out weight_type='f16'")
    # The folders of the files that were read are searched for object files and specs.
    module, paths = load_source(source, options=checked.reading)
    checked = replace(checked, source_folders=tuple(dict.fromkeys(str(path.parent) for path in paths)))
    return module, _with_rewrites(checked, stated)


def _with_rewrites(options: Options, stated: CompileOptions) -> Options:
    """Return the options with the rewrites that `stated` names, and with the folders of their files.

    The caller's kernels for custom operations (option `kernels`) become patterns, too.
    """
    require_match, patterns = arguments.flag("require_match", stated["require_match"]), stated["patterns"]
    transform_spec, pdl_spec, kernels = stated["transform_spec"], stated["pdl_spec"], options.reading.kernels
    has_specs = transform_spec is not None or pdl_spec is not None
    has_no_patterns = isinstance(patterns, (list, tuple)) and not patterns  # `rewrites_of` refuses other types
    if not has_specs and has_no_patterns and not kernels:
        return options  # with `require_match`, too: there is nothing that could match
    all_rewrites, folders = rewrites_of(transform_spec, pdl_spec, patterns, require_match, load_source)
    all_rewrites.rewrites += rewrites_by_patterns(custom_operation_patterns(kernels))
    missing = dict.fromkeys(kernels, "the program has no custom operation of this name")  # frontends may say more
    all_rewrites.report.hints |= kernel_hints(missing)
    return replace(options, rewrites=all_rewrites, source_folders=(*options.source_folders, *folders))


def dump_into(folder: Path) -> Dump:
    """Return a function that writes intermediates as files of `folder`, whose names may contain any symbols."""

    def write(name: str, content: bytes | str) -> Path:
        """Write the intermediate `name` as a file of `folder`, and return its path."""
        data = content.encode() if isinstance(content, str) else content
        path = folder / path_part(name)
        with writing("an intermediate", path):
            path.write_bytes(data)
        return path

    return write
