"""OpenVINO on its CPU plugin, with f32 where the model is not quantized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pydispatch.bench.peer import Question
from pydispatch.bench.program import Work
from pydispatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

READS = (".onnx", ".xml")
"""Suffixes of the files that OpenVINO is given."""
PACKAGES = "openvino"
"""Arguments of `pip install`, for the message that OpenVINO is missing."""


def compiled(model: bytes | Path, workers: int, group_size: int = 0) -> Any:
    """Compile an ONNX model for calls one at a time, and return OpenVINO's CompiledModel.

    Args:
        model: The bytes of the model, or its file.
        workers: Number of threads of a call.
        group_size: Number of consecutive activations that are quantized together, to 8 bits, for products with weights
            of few bits; 0 keeps activations in f32.

    Raises:
        RuntimeError: OpenVINO cannot read or compile the model.
        ModuleNotFoundError: OpenVINO is not installed.
    """
    import openvino

    core = openvino.Core()
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": workers,
        "INFERENCE_PRECISION_HINT": "f32",  # its default is bf16 on CPUs that multiply it
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": group_size,
    }
    return core.compile_model(core.read_model(model), "CPU", options)


def results(request: Any, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Run an InferRequest once and return copies of its results, in the model's order."""
    outputs = request.infer(list(inputs), share_inputs=True)
    return [np.array(outputs[index]) for index in range(len(outputs))]


def work(question: Question) -> Work:
    """Load the model and return a Work whose inputs and results stay in memory of the request."""
    request = compiled(question.file, question.workers).create_infer_request()
    count = len(request.model_inputs)
    if count != len(question.inputs):
        raise InvalidArgumentError(
            f"--peer=openvino: '{question.file}' has {count} inputs, the function {len(question.inputs)}"
        )
    inputs = [np.ascontiguousarray(value) for value in question.inputs]

    def call() -> Any:
        """Run the request on the memory of `inputs`; results are not copied out of the request."""
        request.infer(inputs, share_inputs=True, share_outputs=True)

    return Work(call, results(request, inputs), nbytes=0)  # the bandwidth of a peer is not reported
