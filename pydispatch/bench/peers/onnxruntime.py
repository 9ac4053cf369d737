"""onnxruntime on its CPU provider, with results in memory that it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.bench.peer import Question
from pydispatch.bench.program import Work
from pydispatch.errors import InvalidArgumentError

READS = (".onnx",)
"""Suffixes of the files that onnxruntime is given."""
PACKAGES = "onnxruntime"
"""Arguments of `pip install`, for the message that onnxruntime is missing."""


def work(question: Question) -> Work:
    """Load the model, run it once, and return the call to measure with the results of that run.

    Inputs and outputs are bound to memory in advance (an "I/O binding"), so that a call converts no arguments.

    Args:
        question: The .onnx file, the inputs in the order of the model, and the number of threads.

    Raises:
        InvalidArgumentError: The model has another number of inputs.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = question.workers
    options.log_severity_level = 3  # errors, without warnings
    session = onnxruntime.InferenceSession(str(question.file), options, providers=["CPUExecutionProvider"])
    names = [argument.name for argument in session.get_inputs()]
    if len(names) != len(question.inputs):
        raise InvalidArgumentError(
            f"--peer=onnxruntime: '{question.file}' has {len(names)} inputs ({', '.join(names)}), the function "
            f"{len(question.inputs)}"
        )
    binding = session.io_binding()
    for name, value in zip(names, question.inputs, strict=True):
        binding.bind_cpu_input(name, np.ascontiguousarray(value))
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def call() -> Any:
        """Run the session on the inputs that are bound to it; the results are written into its output memory."""
        session.run_with_iobinding(binding)

    call()  # computes the results, which are then copied out of the memory that later calls overwrite
    results = [np.array(value) for value in binding.copy_outputs_to_cpu()]
    return Work(call, results, nbytes=0)  # the bandwidth of a peer is not reported
