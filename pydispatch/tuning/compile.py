"""`compile(tune=...)`: compilation with the configurations that are fastest on this machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydispatch.compiler.driver import artifact_cache
from pydispatch.errors import InvalidArgumentError
from pydispatch.options import CompileOptions, completed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pydispatch.formats.artifact.artifact import Artifact


def compile(source: Any, **options: Unpack[CompileOptions]) -> Artifact:
    """Compile like `pydispatch.compiler.driver.pipeline.compile`, with choices by measurement (docs/tuning.md).

    Measurements are stored in the compiler's cache folder and apply to this machine. Standard error reports the gains.

    Example: `compile("model.mlir", cpu="native", tune=30)` measures for about 30 seconds.

    Args:
        source: The program, or a kernel in Python.
        options: Options of `pipeline.compile`, and two of tuning. `tune` is the time limit in seconds; 0 uses stored
            measurements only, and None, the default, compiles the default configurations. `tune_on` is the CPU device
            that measures; it is refused without `tune`.

    Raises:
        TypeError: There is no such option.
        InvalidArgumentError: The time or device is invalid.
        CompileError: The program is compiled for more than one CPU. Errors of `pipeline.compile` are raised, too.
    """
    stated: dict[str, Any] = {**completed(options)}
    tune, tune_on = stated.pop("tune"), stated.pop("tune_on")
    if tune is None:
        if tune_on is not None:
            raise InvalidArgumentError("tune_on: there is nothing to measure without tune=SECONDS")
        return artifact_cache.compile(source, **stated)
    if not isinstance(tune, (int, float)) or isinstance(tune, bool) or not 0 <= tune < math.inf:
        raise InvalidArgumentError(f"tune: expected seconds, 0 or more, got {tune!r}")
    # A kernel with configurations: `inputs` states the shapes for which the fastest one is chosen. It is removed from
    # the options, since the compilation of a kernel takes no `inputs`.
    if hasattr(source, "for_shapes"):
        source = source.for_shapes(stated.pop("inputs") or {}, measures=tune > 0)
    # Imported here, as compilations without tuning use neither.
    from pydispatch.tuning.bench import Bench
    from pydispatch.tuning.tuner import Tuner

    return artifact_cache.compile(source, chooser=Tuner(float(tune), Bench(tune_on)), **stated)
