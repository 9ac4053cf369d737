"""Remedies for sources that no frontend reads, for the messages that refuse them."""

from __future__ import annotations

from pathlib import Path

_PLAIN = (
    "a plain function; decorate it with @pydispatch.program or @pydispatch.kernel, or trace it with JAX: "
    "pydispatch.jax_source(function, *arguments)"
)

_OF_CLASSES = {
    ("pydispatch", "Artifact"): "an artifact, which is compiled already; device.load(artifact) takes it",
    ("torch", "ScriptModule"): (
        "a module of TorchScript; give the module that it was made from to pydispatch.from_torch(module, arguments)"
    ),
    ("torch", "ScriptFunction"): "a function of TorchScript; give torch.export.export(module, arguments)",
    ("torch", "Module"): (
        "a module of PyTorch; call pydispatch.from_torch(module, arguments), or give "
        "torch.export.export(module, arguments)"
    ),
    ("jaxlib", "PjitFunction"): (
        "a function of JAX; give pydispatch.jax_source(function, *arguments), or function.lower(*arguments)"
    ),
    ("builtins", "function"): _PLAIN,
    ("builtins", "method"): _PLAIN,
}
"""Top-level package and name of a class → the kind of its instances, and what to do. Derived classes come first."""

_PICKLED = (
    "pickled objects and TorchScript of PyTorch are not read; export the module: "
    "torch.export.save(torch.export.export(module, arguments), 'model.pt2')"
)
_TENSORFLOW = "models of TensorFlow and Keras are not read; convert the model to ONNX (tf2onnx)"

_OF_SUFFIXES = {
    ".ckpt": _PICKLED,
    ".gguf": "pydispatch.compile does not read GGUF; language models run from such files (docs/llm.md)",
    ".h5": _TENSORFLOW,
    ".keras": _TENSORFLOW,
    ".pb": _TENSORFLOW,
    ".pdx": "it is an artifact, which is compiled already; device.load(path) takes it",
    ".pt": _PICKLED,
    ".pth": _PICKLED,
    ".safetensors": (
        "it has weights without a program; give the model, and the weights to device.load(artifact, parameters=...)"
    ),
    ".tflite": "models of TensorFlow Lite are not read; convert the model to ONNX (tf2onnx), or to the text of TOSA",
}
"""Suffix of a file name → why such files are not compiled, and what to do."""

_OF_BINARIES = "MLIR bytecode is not supported; give MLIR text (of JAX: jax.jit(f).lower(x).as_text())"


def remedy_of_binary(path: Path) -> str:
    """Return what to do about a file that is not text and that no frontend reads."""
    return _OF_SUFFIXES.get(path.suffix.lower(), _OF_BINARIES)


def remedy_of_object(source: object) -> str | None:
    """Return the kind of an object and what to do instead of compiling it, or None. No framework is imported."""
    classes = {(base.__module__.partition(".")[0], base.__name__) for base in type(source).__mro__}
    return next((remedy for key, remedy in _OF_CLASSES.items() if key in classes), None)
