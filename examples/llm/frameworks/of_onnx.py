"""A decoder as an ONNX model, whose inputs and results are the keys and values of all earlier tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from weights import Weights

import pydispatch as pd
from frameworks import Array, Step, read_llama, steps_with_caches

OPSET = 23
"""Version that has `Attention`, `RMSNormalization` and `RotaryEmbedding`."""


class Graph:
    """Nodes and weights of a graph while it is built."""

    def __init__(self, weights: Weights) -> None:
        """Begin a graph without nodes. weights: arrays by name, which layers add as constants."""
        self.weights, self.nodes, self.constants = weights, list[Any](), list[Any]()

    def add(self, op_type: str, *inputs: str, results: tuple[str, ...] = (), **attributes: Any) -> str:
        """Add a node, and return the name of its first result. results: names of all; empty for one new name."""
        names = results or (f"{op_type}_{len(self.nodes)}",)
        self.nodes.append(helper.make_node(op_type, inputs, names, **attributes))
        return names[0]

    def constant(self, name: str, array: Array) -> str:
        """Add an array unless there is one of this name, and return the name."""
        if all(constant.name != name for constant in self.constants):
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def norm(self, x: str, name: str, epsilon: float) -> str:
        """Add an RMS norm with the weight of that name."""
        weight = self.constant(name, self.weights[f"{name}.weight"].astype(np.float32))
        return self.add("RMSNormalization", x, weight, epsilon=epsilon)

    def linear(self, x: str, name: str) -> str:
        """Multiply by a weight, which ONNX stores as [in, out], and add the bias if there is one."""
        weight = self.constant(f"{name}.in", self.weights[f"{name}.weight"].astype(np.float32).T)
        product = self.add("MatMul", x, weight)
        bias = self.weights.get(f"{name}.bias")
        return product if bias is None else self.add("Add", product, self.constant(name, bias.astype(np.float32)))


def model_of(folder: str, max_tokens: int) -> onnx.ModelProto:
    """Return the model of calls (token i64[1, 1], *pasts) -> (scores, *presents), see `steps_with_caches`."""
    config, graph = read_llama(folder), Graph(Weights(folder))
    assert config.rotary is not None
    angles = np.arange(max_tokens, dtype=np.float32)[:, None] * config.rotary.frequencies()
    tables = graph.constant("cosine", np.cos(angles)), graph.constant("sine", np.sin(angles))
    table = graph.constant("embedding", graph.weights["model.embed_tokens.weight"].astype(np.float32))
    position = graph.add("Shape", "past_keys.0", start=2, end=3)  # as many tokens as the cache has
    position = graph.add("Unsqueeze", position, graph.constant("axis", np.array([0])))
    heads = {"q": config.heads, "k": config.kv_heads, "v": config.kv_heads}
    x = graph.add("Gather", table, "token")
    for layer in range(config.layers):
        name = f"model.layers.{layer}"
        y = graph.norm(x, f"{name}.input_layernorm", config.epsilon)
        q, k, v = (graph.linear(y, f"{name}.self_attn.{letter}_proj") for letter in heads)
        q, k = (
            graph.add("RotaryEmbedding", part, *tables, position, num_heads=heads[letter])
            for letter, part in (("q", q), ("k", k))
        )
        pasts, presents = ((f"{when}_keys.{layer}", f"{when}_values.{layer}") for when in ("past", "present"))
        y = graph.add(
            "Attention", q, k, v, "", *pasts, results=(f"attended.{layer}", *presents), q_num_heads=config.heads,
            kv_num_heads=config.kv_heads,
        )  # fmt: skip
        x = graph.add("Add", x, graph.linear(y, f"{name}.self_attn.o_proj"))
        y = graph.norm(x, f"{name}.post_attention_layernorm", config.epsilon)
        gate, up = (graph.linear(y, f"{name}.mlp.{part}_proj") for part in ("gate", "up"))
        silu = graph.add("Mul", gate, graph.add("Sigmoid", gate))
        x = graph.add("Add", x, graph.linear(graph.add("Mul", silu, up), f"{name}.mlp.down_proj"))
    x = graph.norm(x, "model.norm", config.epsilon)
    scores = graph.linear(x, "model.embed_tokens" if config.is_tied else "lm_head")

    def info(name: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> Any:
        """Declare an input or a result of the graph."""
        return helper.make_tensor_value_info(name, dtype, shape)

    def caches(when: str, length: str) -> list[Any]:
        """Declare the keys and values of each layer in turn. when: "past" or "present". length: of that size."""
        shape = 1, config.kv_heads, length, config.head_size
        return [info(f"{when}_{part}.{i}", *shape) for i in range(config.layers) for part in ("keys", "values")]

    inputs = [info("token", 1, 1, dtype=TensorProto.INT64), *caches("past", "past")]
    results = [info(scores, 1, 1, config.vocabulary), *caches("present", "present")]
    body = helper.make_graph(graph.nodes, "decoder", inputs, results, graph.constants)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def compile_decoder(folder: str, max_tokens: int, **options: Any) -> pd.Artifact:
    """Compile the model of a folder, see `Framework`."""
    return pd.compile(model_of(folder, max_tokens), **options)


def step_of(program: pd.Program) -> Step:
    """Return the steps of a program, whose caches grow with each token, see `Framework`."""
    return steps_with_caches(program.main, [entry.shape for entry in program.main.inputs[1:]])


def reference(folder: str, max_tokens: int) -> Step:
    """Return the steps of the model in onnxruntime, see `Framework`."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model_of(folder, max_tokens).SerializeToString())
    entries = session.get_inputs()

    def call(*arrays: Array) -> Any:
        """Run the session; the arrays are in the order of its inputs."""
        return session.run(None, {entry.name: array for entry, array in zip(entries, arrays, strict=True)})

    return steps_with_caches(call, [entry.shape for entry in entries[1:]])
