"""An operation that host code computes: its conversion to a host command, and the command."""

import numpy as np

from pydispatch.compiler.normalize.build import Build
from toy.dialect import HistogramOp


def _histogram(op: HistogramOp, build: Build) -> None:
    build.replace(*build.host_command("toy.histogram", [op.source], [op.result.type]))


CONVERSIONS = {HistogramOp.name: _histogram}


def histogram(context, source, counts):
    """How many elements are in each of as many ranges of equal size as `counts` has, from 0 to 1."""
    occurrences, _ = np.histogram(np.asarray(source), bins=counts.shape[0], range=(0, 1))
    if context.kind == "cpu":
        counts[...] = occurrences
    else:
        counts.upload(occurrences.astype(np.int64))
