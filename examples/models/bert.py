"""A BERT encoder as an ONNX file with a C kernel for its activation, compiled and compared with onnxruntime.

python examples/models/bert.py [--small] [--device cpu] [--write FOLDER]

The activation is a node of an own domain, `mylib::FastGelu`: `kernels=` gives the C function that computes it, and
onnxruntime gets the formula as a function of the model. Batch and length are symbols. Weights are random, of a fixed
seed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import pydispatch as pd

HERE = Path(__file__).parent
GELU = pd.CFunction(HERE / "gelu.c", "gelu", "in0", "out", "count", "first", tile={"count": 4096})
"""C function of the activation, which computes tiles of 4096 elements."""
KERNELS = {"mylib::FastGelu": pd.CustomOperation(GELU, results=lambda x: [x])}
"""Operation of an ONNX domain -> kernel; the result has the shape of x."""


class Model:
    """Builder of the nodes and weights of an encoder. Methods that add nodes take and return names of tensors."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int) -> None:
        """Add all layers, with random weights. width: features of a token. vocabulary: number of tokens."""
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(0)
        self.width, self.heads = width, heads
        x = self.node("Gather", self.weight("embeddings.word", (vocabulary, width)), "input_ids")
        x = self.norm("embeddings.norm", x)
        bias = self.mask()
        for layer in range(layers):
            x = self.layer(f"layer.{layer}", x, bias)
        self.node("Identity", x, output="last_hidden_state")

    def weight(self, name: str, shape: tuple[int, ...], scale: float = 0.02) -> str:
        """Add random weights with the standard deviation `scale`."""
        array = self.random.normal(0, scale, shape).astype(np.float32)
        return self.constant(name, array)

    def constant(self, name: str, array: np.ndarray[Any, Any]) -> str:
        """Add an initializer, and return its name."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(
        self, kind: str, *inputs: str, output: str = "", domain: str = "", name: str = "", **attributes: Any
    ) -> str:
        """Add a node with one result. output, name: "" for a new name."""
        output = output or f"{name or kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=name or output, domain=domain, **attributes))
        return output

    def mask(self) -> str:
        """Return what is added to scores, [batch, 1, 1, length]: 0 where a token counts, -1e9 where it does not."""
        visible = self.node("Cast", "attention_mask", to=TensorProto.FLOAT)
        wide = self.node("Unsqueeze", visible, self.constant("axes", np.array([1, 2])))
        is_hidden = self.node("Sub", self.constant("one", np.float32([1])), wide)
        return self.node("Mul", is_hidden, self.constant("far", np.float32([-1e9])))

    def dense(self, name: str, x: str, inputs: int, outputs: int) -> str:
        """Add a dense layer. name: of the layer, with which the names of its weights and nodes begin."""
        product = self.node("MatMul", x, self.weight(f"{name}.weight", (inputs, outputs)), name=f"{name}.matmul")
        return self.node("Add", product, self.weight(f"{name}.bias", (outputs,)), name=f"{name}.add")

    def norm(self, name: str, x: str) -> str:
        """Add a layer normalization of the features."""
        scale = self.constant(f"{name}.weight", np.ones(self.width, np.float32))
        return self.node("LayerNormalization", x, scale, self.weight(f"{name}.bias", (self.width,)), name=name, axis=-1)

    def split(self, x: str, order: list[int]) -> str:
        """Split features into heads, [batch, length, heads, size], and permute these dimensions."""
        # A size of 0 keeps the dimension.
        shape = self.constant(f"heads_{len(self.nodes)}", np.array([0, 0, self.heads, self.width // self.heads]))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=order)

    def layer(self, name: str, x: str, bias: str) -> str:
        """Add attention and an MLP; a norm follows each addition of their inputs. bias: of `mask`."""
        wide = self.width
        q, k, v = (self.dense(f"{name}.attention.{part}", x, wide, wide) for part in ("query", "key", "value"))
        scores = self.node("MatMul", self.split(q, [0, 2, 1, 3]), self.split(k, [0, 2, 3, 1]))
        scale = self.constant(f"{name}.scale", np.float32([(wide // self.heads) ** -0.5]))
        scores = self.node("Add", self.node("Mul", scores, scale), bias)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), self.split(v, [0, 2, 1, 3]))
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]),
                           self.constant(f"{name}.whole", np.array([0, 0, wide])))  # fmt: skip
        mixed = self.dense(f"{name}.attention.out", joined, wide, wide)
        x = self.norm(f"{name}.attention.norm", self.node("Add", x, mixed))
        inner = self.node("FastGelu", self.dense(f"{name}.up", x, wide, 4 * wide), domain="mylib", name=f"{name}.gelu")
        return self.norm(f"{name}.norm", self.node("Add", x, self.dense(f"{name}.down", inner, 4 * wide, wide)))

    def proto(self, with_function: bool) -> Any:
        """Return the model. with_function: with the formula of `FastGelu`, which onnxruntime needs."""
        sizes = ["batch", "length"]
        inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, sizes) for n in ("input_ids", "attention_mask")]
        output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*sizes, self.width])
        graph = helper.make_graph(self.nodes, "encoder", inputs, [output], self.weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("mylib", 1)]
        formula = helper.make_function(
            "mylib", "FastGelu", ["x"], ["y"], [helper.make_node("Gelu", ["x"], ["y"], approximate="tanh")], opsets[:1]
        )
        return helper.make_model(
            graph, opset_imports=opsets, functions=[formula] if with_function else [], ir_version=9
        )


def main() -> None:
    """Compile and run the encoder, and compare its result with onnxruntime's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="two layers of 32 features, 2 heads, 50 words")
    parser.add_argument("--device", default="cpu", help="cpu, vulkan, ...")
    parser.add_argument("--write", type=Path, help="write the model, an input and its result into a folder")
    arguments = parser.parse_args()
    layers, width, heads, words = (2, 32, 2, 50) if arguments.small else (12, 768, 12, 30522)
    model = Model(layers, width, heads, words)
    ids = model.random.integers(0, 50, (2, 7 if arguments.small else 64))
    mask = np.ones_like(ids)
    mask[1, 5:] = 0  # the second text is shorter
    folder = arguments.write or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model.proto(with_function=False), folder / "bert.onnx")
    began = time.perf_counter()
    artifact = pd.compile(folder / "bert.onnx", kernels=KERNELS)
    print(f"compiled in {time.perf_counter() - began:.1f} s")
    program = pd.device(arguments.device).load(artifact)
    result = np.asarray(program.main(ids, mask))
    session = onnxruntime.InferenceSession(model.proto(with_function=True).SerializeToString())
    (wanted,) = session.run(None, {"input_ids": ids, "attention_mask": mask})
    error = np.abs(result - wanted).max() / np.abs(wanted).max()
    print(f"largest difference to onnxruntime: {error:.1e} of the largest result")
    assert error < 1e-4
    if arguments.write:
        np.savez(folder / "bert.npz", input_ids=ids, attention_mask=mask, result=wanted)


if __name__ == "__main__":
    main()
