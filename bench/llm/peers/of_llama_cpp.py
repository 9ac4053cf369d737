"""llama.cpp as a peer of the benchmark of language models: our weights in a GGUF file, run by `llama-cpp-python`."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from blocks import Blocks
from config import Config
from gguf import GGMLQuantizationType, GGUFWriter
from gguf_file import NAMES
from measured import HELD, MAX_TOKENS, PROMPTS, SEQUENCES, least_seconds, peak_memory, weights_of


def write_gguf(path: Path, config: Config, weights: dict[str, Any]) -> None:
    """Write a GGUF file of a Llama without a tokenizer. weights: of `weights_of`."""
    assert config.rotary is not None
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model("none")
    for add, value in (
        (writer.add_vocab_size, config.vocabulary), (writer.add_context_length, config.max_positions),
        (writer.add_embedding_length, config.width), (writer.add_block_count, config.layers),
        (writer.add_head_count, config.heads), (writer.add_head_count_kv, config.kv_heads),
        (writer.add_layer_norm_rms_eps, config.epsilon), (writer.add_rope_freq_base, config.rotary.theta),
        (writer.add_rope_dimension_count, config.head_size),
        (writer.add_feed_forward_length, weights["model.layers.0.mlp.up_proj.weight"].shape[0]),
    ):  # fmt: skip
        add(value)
    for name, weight in weights.items():
        writer.add_tensor(_gguf_name(name), *_stored(_in_order(name, weight, config)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_name(name: str) -> str:
    """Return the name in a GGUF file of a weight of `transformers`."""
    names = {of_transformers: of_gguf for of_gguf, of_transformers in NAMES.items()}
    stem, _, suffix = name.rpartition(".")
    if not stem.startswith("model.layers."):
        return f"{names[stem]}.{suffix}"
    _, _, layer, module = stem.split(".", 3)  # such as model.layers.0.self_attn.q_proj
    return f"blk.{layer}.{names[module]}.{suffix}"


def _in_order(name: str, weight: Any, config: Config) -> Any:
    """Return a weight with its rows in the order of llama.cpp.

    Only the projections of queries and keys change: features that are rotated together become neighbours, while
    `transformers` has them half a head apart.
    """
    heads = config.heads if ".q_proj." in name else config.kv_heads if ".k_proj." in name else 0
    if not heads:
        return weight
    rows = np.arange(weight.shape[0]).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)
    return Blocks(weight.stored[rows], weight.scales[rows]) if isinstance(weight, Blocks) else weight[rows]


def _stored(weight: Any) -> tuple[Any, Any, Any]:
    """Return (array, shape, type) of a tensor, as `GGUFWriter.add_tensor` takes them."""
    if isinstance(weight, Blocks):
        kind = GGMLQuantizationType["Q8_0" if weight.stored.dtype == np.int8 else "Q4_0"]
        scales = weight.scales[..., None].view(np.uint8)
        block_bytes = np.concatenate([scales, weight.stored.view(np.uint8)], axis=-1)
        return block_bytes.reshape(weight.shape[0], -1), None, kind
    if weight.dtype == np.float32 or weight.ndim == 1:
        return weight.astype(np.float32), None, GGMLQuantizationType.F32
    return weight.view(np.uint8), None, GGMLQuantizationType.BF16


def measure(config: Config, kind: str, seconds: float) -> dict[str, float]:
    """Return CPU seconds of steps ("decode N", "prefill N") and the process's largest "memory" in MiB.

    kind: type of the weights, such as "f32" or "Q8_0". seconds: for how long each step is repeated.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_gguf(path, config, weights_of(config, kind))
        model = load(path)
        context = context_of(model, max(SEQUENCES))
        memory = llama_cpp.llama_get_memory(context)
        for sequence in range(max(SEQUENCES)):
            decode(context, [(1, position, sequence) for position in range(HELD)])

        def decoding(count: int) -> Callable[[], None]:
            """Return a step that decodes a token of `count` sequences, which hold HELD each, and forgets it again."""

            def step() -> None:
                """Decode a token of each sequence, then remove it from the cache."""
                decode(context, [(1, HELD, sequence) for sequence in range(count)])
                llama_cpp.llama_memory_seq_rm(memory, -1, HELD, -1)  # all sequences, from HELD to the end

            return step

        def prefilling(length: int) -> Callable[[], None]:
            """Return a step that computes a prompt of `length` tokens in sequence 0, after emptying it."""

            def step() -> None:
                """Empty sequence 0, then compute the prompt in it."""
                llama_cpp.llama_memory_seq_rm(memory, 0, 0, -1)
                decode(context, [(1, position, 0) for position in range(length)])

            return step

        # Prompts replace the tokens that sequence 0 holds, so decoding is measured first.
        results = least_seconds({f"decode {count}": decoding(count) for count in SEQUENCES}, seconds)
        results |= least_seconds({f"prefill {length}": prefilling(length) for length in PROMPTS}, seconds)
        return {"memory": peak_memory(), **results}


@llama_cpp.llama_log_callback
def discard(level: int, text: bytes, data: ctypes.c_void_p) -> None:
    """Discard a message of llama.cpp. A function of the module, as the library keeps its address for good."""


def load(path: Path) -> Any:
    """Return the model of a GGUF file, which is mapped into memory. Raise ValueError if llama.cpp refuses it."""
    llama_cpp.llama_log_set(discard, None)
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise ValueError(f"{path}: llama.cpp cannot read it")
    return model


def context_of(model: Any, sequences: int) -> Any:
    """Return a context of one thread for so many sequences, each of up to MAX_TOKENS."""
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx, parameters.n_batch, parameters.n_seq_max = sequences * MAX_TOKENS, MAX_TOKENS, sequences
    parameters.n_threads = parameters.n_threads_batch = 1
    return llama_cpp.llama_init_from_model(model, parameters)


def decode(context: Any, entries: list[tuple[int, int, int]]) -> None:
    """Run the model once on tokens, and add them to the cache.

    entries: (token, position in its sequence from 0, sequence) of each. Scores are computed for the last token of each
    sequence only, as generating text needs no others.
    """
    batch = llama_cpp.llama_batch_init(len(entries), 0, 1)  # tokens instead of embeddings, of one sequence each
    batch.n_tokens = len(entries)
    last_index = {sequence: index for index, (_, _, sequence) in enumerate(entries)}
    for index, (token, position, sequence) in enumerate(entries):
        batch.token[index], batch.pos[index] = token, position
        batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
        batch.logits[index] = last_index[sequence] == index
    status = llama_cpp.llama_decode(context, batch)
    llama_cpp.llama_batch_free(batch)
    if status:
        raise RuntimeError(f"llama_decode: status {status}")
