"""What a call of a compiled model costs, here, with IREE, JAX, onnxruntime and OpenVINO, in one process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from pydispatch.bench.measure import measure as measured
from pydispatch.bench.peers import iree, openvino
from pydispatch.bench.program import difference


def measure(name: str, small: bool, workers: int, folder: Path, seconds: float) -> dict[str, Any]:
    """Return the figures of a model as a dict that can be written as JSON.

    "seconds": least seconds of a call by contender. "difference" (of pydispatch) and "CONTENDER difference": largest
    difference from JAX, relative to the largest element. "tolerance": largest difference that is accepted. "jax
    compile": seconds.

    With one worker the process keeps to one core and its CPU time counts, so that no other threads help unnoticed. The
    least of all rounds counts, as other processes may disturb some rounds.

    Args:
        name: Of the model in the catalog.
        small: Whether it has few channels and layers, for tests.
        workers: Threads of each contender.
        folder: Has the compiled NAME.pdx and, unless IREE could not compile the model, NAME.vmfb.
        seconds: Duration of the calls of each contender.
    """
    if workers == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import jax
    from exported import NotExported, Session, onnx_model
    from programs import PAUSE
    from works import models

    import pydispatch

    iree.set_workers(workers)
    (model,) = models(small, {name})
    arguments, expected = model.arguments(), model.expected()
    # JAX: compile, with the weights as arguments.
    start = time.perf_counter()
    jitted = jax.jit(model.function, keep_unused=True)
    model.call(lambda *args: jitted.lower(*args).compile())
    figures: dict[str, Any] = {"jax compile": time.perf_counter() - start}

    # pydispatch: the artifact with weights as arguments, and a program with weights as constants.
    device = pydispatch.device(f"cpu?workers={workers}")
    prepared = device.load(folder / f"{name}.pdx").main.prepare(*arguments)
    figures["difference"] = differs(prepared(), expected)
    figures["tolerance"] = model.tolerance
    # `folder` has only the former. call() passes the weights and inputs of the model to a function.
    constant = device.load(model.call(lambda weights, *inputs: pydispatch.from_jax(
        model.function, *inputs, params=weights, targets="cpu", cpu="native"
    ))).main.prepare(*model.inputs)  # fmt: skip
    figures["constants difference"] = differs(constant(), expected)
    on_device = jax.tree.map(jax.device_put, model.call(lambda *args: args))
    contenders: dict[str, Callable[[], Any]] = {
        "pydispatch": prepared,
        "pydispatch, constant weights": constant,
        "jax": lambda: jax.block_until_ready(jitted(*on_device)),
    }
    module = folder / f"{name}.vmfb"
    if module.exists():  # there are models that the peer cannot compile
        peer = iree.Module(module, "local-sync" if workers == 1 else "local-task")
        figures["iree difference"] = differs(peer.function("main")(*arguments), expected)
        contenders["iree"] = peer.raw("main", *arguments)
    with suppress(NotExported):  # a model with operations that ONNX lacks
        exported = onnx_model(model)
        session = Session(exported, model.inputs, workers)
        figures["onnxruntime difference"] = differs(session.results(), expected)
        contenders["onnxruntime"] = session.call
        if (request := _openvino(exported.SerializeToString(), workers)) is not None:
            figures["openvino difference"] = differs(openvino.results(request, model.inputs), expected)
            contenders["openvino"] = lambda: request.infer(list(model.inputs), share_inputs=True, share_outputs=True)
    clock = time.process_time if workers == 1 else time.perf_counter
    figures["seconds"] = {
        samples.name: samples.least for samples in measured(contenders, seconds, pause=PAUSE, clock=clock)
    }
    return figures


def _openvino(model: bytes, workers: int) -> Any:
    """Return a request of an ONNX model to OpenVINO; None if it is not installed or cannot compile the model."""
    try:
        return openvino.compiled(model, workers).create_infer_request()
    except ModuleNotFoundError:
        return None
    except RuntimeError as error:
        print(f"OpenVINO cannot compile the model: {str(error)[-200:]}", file=sys.stderr)
        return None


def differs(actual: Any, expected: Sequence[Any]) -> float:
    """Return the largest difference of results from the expected ones, relative to the largest element.

    actual: one array or several, of NumPy or JAX.
    """
    results = actual if isinstance(actual, tuple | list) else [actual]
    return difference([np.asarray(array) for array in results], [np.asarray(array) for array in expected])
