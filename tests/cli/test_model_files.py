"""Subcommands on models: compile with kernels, run, inspect, and what they say when something is missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pydispatch.cli.__main__ import main

MODELS = Path(__file__).resolve().parents[2] / "examples" / "models"
RESNET, BERT = MODELS / "small" / "resnet.mlir", MODELS / "small" / "bert.onnx"
KERNEL = f"mylib.hard_swish={MODELS / 'hard_swish.c'}:hard_swish:in0,scale,out,count"


def test_compile_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = np.load(MODELS / "small" / "resnet.npz")
    np.save(tmp_path / "image.npy", data["image"])
    assert main(["compile", str(RESNET), f"--kernel={KERNEL}", "-o", str(tmp_path / "resnet.pdx")]) == 0
    given = [f"--input=@{tmp_path / 'image.npy'}", f"--output=@{tmp_path / 'result.npy'}"]
    for file in ([str(tmp_path / "resnet.pdx")], [str(RESNET), f"--kernel={KERNEL}"]):
        assert main(["run", *file, *given]) == 0
        np.testing.assert_allclose(np.load(tmp_path / "result.npy"), data["result"], rtol=1e-4, atol=1e-5)
    assert "EXEC @main" in capsys.readouterr().out


def test_inspect_lists_what_a_model_needs(capsys: pytest.CaptureFixture[str]) -> None:
    model = MODELS / "small" / "gpt2.pt2"
    assert main(["inspect", str(model)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{model}: a model") and "input  ids: i64[1, s" in shown and "blocks.0.qkv.weight" in shown
    assert "mylib::gelu (tensor<1x?x128xf32>) -> (tensor<1x?x128xf32>)" in shown
    assert main(["inspect", "--json", str(model)]) == 0
    assert json.loads(capsys.readouterr().out)["functions"][0]["name"] == "main"
    assert main(["inspect", "--program", str(model)]) == 1
    assert "--program needs a .pdx artifact; this is a model" in capsys.readouterr().err


@pytest.mark.parametrize("kernel", ["swish", "a=b", "=f.c:g", "a=f.c:g:x:y"])
def test_kernels_that_cannot_be_read(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(RESNET), f"--kernel={kernel}"]) == 1
    assert f"--kernel={kernel}: expected NAME=FILE:SYMBOL" in capsys.readouterr().err


def test_a_kernel_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(RESNET)]) == 1
    shown = capsys.readouterr().err
    assert "there is no kernel for the custom operation 'mylib.hard_swish'" in shown and "resnet.mlir:" in shown
    assert main(["compile", str(BERT)]) == 1
    assert "FastGelu" in capsys.readouterr().err
