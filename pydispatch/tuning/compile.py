"""`compile(tune=...)`: a program compiled with what is the fastest on this machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydispatch.compiler.driver import artifact_cache
from pydispatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pydispatch.formats.artifact.artifact import Artifact


def compile(source: Any, *, tune: float | None = None, tune_on: Any = None, **options: Any) -> Artifact:
    """`pydispatch.compiler.driver.pipeline.compile`, with choices by measurement (docs/tuning.md).

    tune, tune_on: as of `pydispatch.compile`. What was measured stays in the cache folder of the compiler and holds for
    this machine. Lines on standard error tell what was gained.

    Raises what `pipeline.compile` does, InvalidArgumentError for a bad time or device, and CompileError where the
    program is compiled for more than one CPU.
    """
    if tune is None:
        if tune_on is not None:
            raise InvalidArgumentError("tune_on: there is nothing to measure without tune=SECONDS")
        return artifact_cache.compile(source, **options)
    if not isinstance(tune, (int, float)) or isinstance(tune, bool) or not 0 <= tune < math.inf:
        raise InvalidArgumentError(f"tune: expected seconds, 0 or more, got {tune!r}")
    if hasattr(source, "for_shapes"):  # a kernel with configurations
        source = source.for_shapes(options.pop("inputs", None) or {}, tune > 0)
    from pydispatch.tuning.bench import Bench
    from pydispatch.tuning.tuner import Tuner

    return artifact_cache.compile(source, chooser=Tuner(float(tune), Bench(tune_on)), **options)
