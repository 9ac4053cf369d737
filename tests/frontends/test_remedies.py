"""What messages advise for sources that `pydispatch.compile` does not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pydispatch as pd

TEXT = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}"


def instance(module: str, *names: str) -> Any:
    """Return an instance of the last class of a chain of derived classes of a module that need not be installed."""
    base: type = object
    for name in names:
        base = type(name, (base,), {"__module__": module})
    return base()


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        (pd.compile(TEXT), r"an artifact, which is compiled already; device\.load\(artifact\)"),
        (lambda x: x, r"a plain function; decorate it with @pydispatch\.program"),
        (instance("torch.nn.modules.module", "Module", "Linear"), r"a module of PyTorch; .*from_torch\(module"),
        (instance("torch.jit._script", "Module", "ScriptModule"), "a module of TorchScript; .*that it was made from"),
        (instance("torch.jit", "ScriptFunction"), r"a function of TorchScript; .*torch\.export\.export"),
        (instance("jaxlib._jax", "PjitFunction"), r"a function of JAX; .*jax_source\(function, \*arguments\)"),
    ],
)
def test_objects(source: Any, remedy: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=f"^source: got {remedy}"):
        pd.compile(source)
    with pytest.raises(pd.InvalidArgumentError, match=rf"^source\['a'\]: got {remedy}"):
        pd.compile({"a": source})


@pytest.mark.parametrize("head", [b"\x80\x02binary", b"GGUF\x03\0\0\0"])  # the second is UTF-8
@pytest.mark.parametrize(
    ("suffix", "remedy"),
    [
        (".pt", r"torch\.export\.save\(torch\.export\.export"),
        (".pth", "TorchScript"),
        (".pdx", r"compiled already; device\.load\(path\)"),
        (".gguf", r"docs/llm\.md"),
        (".tflite", "ONNX .*TOSA"),
        (".H5", "TensorFlow and Keras"),
        (".safetensors", "weights without a program"),
        (".bin", "MLIR bytecode is not supported"),
    ],
)
def test_files_that_are_not_text(suffix: str, remedy: str, head: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(head)
    with pytest.raises(pd.CompileError, match=f"(?s)is not text: .*note: .*{remedy}"):
        pd.compile(path)


@pytest.mark.parametrize("suffix", [".pdx", ".pb"])
def test_text_is_read_whatever_the_suffix(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"program{suffix}"
    path.write_text(TEXT)
    assert "f" in pd.compile(path).functions
