"""The works that are called after pauses, as ONNX models, and how each contender calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.bench.peers import openvino

Call = Callable[[], object]
"""The call that is measured. A contender's `start` returns a function that returns a Call to each caller, see
`Contender.start`; hence two lambdas where callers share all objects."""

# Models in ONNX's textual syntax; values between <> after the results are weights.
WORKS = {
    "product": """
        product (float[512, 784] x) => (float[512, 512] y) <float[784, 512] w> { y = MatMul(x, w) }""",
    "mlp": """
        mlp (float[64, 784] x) => (float[64, 10] y) <float[784, 512] a, float[512, 512] b, float[512, 10] c> {
          p = MatMul(x, a)  q = Relu(p)  r = MatMul(q, b)  s = Relu(r)  y = MatMul(s, c) }""",
    "bert": """
        bert (float[128, 256] x) => (float[128, 256] y)
          <float[256, 256] q, float[256, 256] k, float[256, 256] v, float[256, 256] o,
           float[256, 1024] a, float[1024, 256] b> {
          xq = MatMul(x, q)  xk = MatMul(x, k)  xv = MatMul(x, v)  kt = Transpose<perm = [1, 0]>(xk)  s = MatMul(xq, kt)
          p = Softmax<axis = 1>(s)  h = MatMul(p, xv)  ho = MatMul(h, o)  r = Add(x, ho)
          m = MatMul(r, a)  n = Relu(m)  f = MatMul(n, b)  y = Add(r, f) }""",
    "resnet": """
        resnet (float[1, 64, 28, 28] x) => (float[1, 64, 28, 28] y) <float[64, 64, 3, 3] a, float[64, 64, 3, 3] b> {
          p = Conv<pads = [1, 1, 1, 1]>(x, a)  q = Relu(p)
          r = Conv<pads = [1, 1, 1, 1]>(q, b)  s = Add(x, r)  y = Relu(s) }""",
    "elementwise": """
        elementwise (float[4194304] x) => (float[4194304] y) <float[1] a, float[1] b> {
          p = Mul(x, a)  q = Add(p, b)  r = Relu(q)  y = Mul(r, r) }""",
}


def model(work: str) -> Any:
    """Return the ONNX model of a work, with random weights."""
    import onnx

    graph = onnx.parser.parse_graph(WORKS[work])
    rng = np.random.default_rng(1)
    for weight in list(graph.value_info):  # values in <>: initializers that have no data yet
        shape = [d.dim_value for d in weight.type.tensor_type.shape.dim]
        values = rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[:-1])))
        graph.initializer.append(onnx.numpy_helper.from_array(values, weight.name))
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def argument(onnx_model: Any) -> Any:
    """Return a random array for the only input of `onnx_model`, an ONNX model."""
    shape = [d.dim_value for d in onnx_model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(2).standard_normal(shape, np.float32)


def _pydispatch(device: str) -> Callable[[Any, int], Callable[[], Call]]:
    """Return a function that loads an ONNX model with a number of workers, and returns the call of each caller.

    device: name of our device, in which {workers} stands for the number of workers.
    """

    def start(onnx_model: Any, workers: int) -> Callable[[], Call]:
        """Load the model, and return a function that returns the call of a caller; all callers share the program."""
        import pydispatch as pd

        x = argument(onnx_model)
        program = pd.device(device.format(workers=workers)).load(pd.compile(onnx_model))

        def call() -> Any:
            """Call the program; all callers use this function."""
            return program.main(x)

        return lambda: call

    return start


def _onnxruntime(onnx_model: Any, workers: int) -> Callable[[], Call]:
    """Load `onnx_model` in ONNX Runtime with `workers` threads; return a function that returns the call of a caller."""
    import onnxruntime

    x = argument(onnx_model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = workers
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def call() -> Any:
        """Run the session; all callers use this function."""
        return session.run(None, {"x": x})

    return lambda: call


def _openvino(onnx_model: Any, workers: int) -> Callable[[], Call]:
    """Load `onnx_model` in OpenVINO with `workers` threads; return a function that returns the call of a caller."""
    x = argument(onnx_model)
    compiled = openvino.compiled(onnx_model.SerializeToString(), workers)

    def caller() -> Call:
        """Create an inference request, which cannot run twice at a time, and return the call that runs it."""
        request = compiled.create_infer_request()
        return lambda: request.infer({0: x})

    return caller


def _openblas(onnx_model: Any, workers: int) -> Callable[[], Call]:
    """Take the weights of `onnx_model`, whose only node is a product; return a function that returns NumPy's product.

    workers is ignored: the number of threads comes from OPENBLAS_NUM_THREADS.
    """
    from onnx import numpy_helper

    x, w = argument(onnx_model), numpy_helper.to_array(onnx_model.graph.initializer[0])

    def call() -> Any:
        """Compute the product; all callers use this function."""
        return x @ w

    return lambda: call


def _jax(onnx_model: Any, workers: int) -> Callable[[], Call]:
    """Compile `onnx_model` with JAX; return a function that returns the call of a caller, the same for all.

    JAX traces a function that interprets the nodes of the model.

    workers is ignored: JAX has as many threads as the process has CPUs, and no option for that.
    """
    import jax
    import jax.numpy as jnp
    from onnx import numpy_helper

    graph = onnx_model.graph
    weights = {tensor.name: jnp.asarray(numpy_helper.to_array(tensor)) for tensor in graph.initializer}

    def convolution(x: Any, w: Any) -> Any:
        """Convolve an image with the filters `w`, both with channels first."""
        # strides of 1, and padding of 1 on each side, as all convolutions of WORKS have
        return jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)])

    operators: dict[str, Callable[..., Any]] = {
        "MatMul": jnp.matmul, "Relu": jax.nn.relu, "Add": jnp.add, "Mul": jnp.multiply, "Transpose": jnp.transpose,
        "Softmax": jax.nn.softmax, "Conv": convolution,
    }  # fmt: skip

    def run(x: Any) -> Any:
        """Compute the model's result "y" by the JAX function of each node, in order."""
        values = {**weights, "x": x}
        for node in graph.node:
            values[node.output[0]] = operators[node.op_type](*(values[name] for name in node.input))
        return values["y"]

    compiled, x = jax.jit(run), jnp.asarray(argument(onnx_model))

    def call() -> Any:
        """Call the compiled function, and wait for its result; all callers use this function."""
        return compiled(x).block_until_ready()

    return lambda: call


@dataclass(frozen=True)
class Contender:
    """A system that is measured.

    Attributes:
        name: Its name in tables.
        start: Compiles an ONNX model for a number of threads, and returns a function that each caller calls once; that
            returns the call that is measured.
        workers: Numbers of threads that it is measured with.
        works: Names of the works that it can run.
        module: The Python module that has to be installed.
    """

    name: str
    start: Callable[[Any, int], Callable[[], Call]]
    workers: tuple[int, ...] = (1, 2)
    works: tuple[str, ...] = tuple(WORKS)
    module: str = "numpy"


CONTENDERS = {
    "pydispatch": Contender("pydispatch", _pydispatch("cpu?workers={workers}")),
    "affinity": Contender("pydispatch, affinity", _pydispatch("cpu?workers={workers}&affinity=1"), workers=(2,)),
    "onnxruntime": Contender("onnxruntime", _onnxruntime, module="onnxruntime"),
    "openvino": Contender("openvino", _openvino, module="openvino"),
    "jax": Contender("jax", _jax, workers=(2,), module="jax"),
    "openblas": Contender("openblas", _openblas, works=("product",)),
}
"""Name on the command line -> contender."""
