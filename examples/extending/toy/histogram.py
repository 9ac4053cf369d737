"""An operation that host code computes: its conversion to a host command, and the command."""

import numpy as np

from pydispatch.compiler.normalize.build import Build
from toy.dialect import HistogramOp


def _histogram(op: HistogramOp, build: Build) -> None:
    """Replace the operation by a call of the host command below, which writes the counts to its second operand."""
    build.replace(*build.host_command("toy.histogram", [op.source], [op.result.type]))


CONVERSIONS = {HistogramOp.name: _histogram}
"""Name of an operation -> function that replaces it."""


def histogram(context, source, counts):
    """Count the elements of `source` in bins of equal width between 0 and 1; `counts`, i64[bins], gets the result."""
    occurrences, _ = np.histogram(np.asarray(source), bins=counts.shape[0], range=(0, 1))
    if context.kind == "cpu":
        counts[...] = occurrences
    else:
        counts.upload(occurrences.astype(np.int64))
