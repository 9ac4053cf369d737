"""A program of a user, with the calls that the documents show; mypy checks it in strict mode, and it runs."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Annotated

import numpy as np

import pydispatch as pd

SOURCE = """
func.func @scaled(%a: tensor<?x4xf32> {pyd.name = "a"}, %k: f32 {pyd.name = "k"}) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x4xf32>
  %s = tensor.splat %k[%n] : tensor<?x4xf32>
  %r = arith.mulf %a, %s : tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
"""
Vector = Annotated[pd.View, pd.f32["n"]]


@pd.kernel(workgroup=64)
def doubled(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] + x[i]


def compiled(folder: Path) -> pd.Artifact:
    """Options may be given, or collected first."""
    options: pd.CompileOptions = {"targets": "cpu", "cpu": ["generic", "native"], "explain": False}
    artifact = pd.compile(SOURCE, **options)
    artifact.save(folder / "scaled.pdx")
    try:
        pd.compile("not a program", targets=["cpu"], object_search_path=[folder], dump=None)
    except pd.CompileError as error:
        print(error, file=sys.stderr)
    return pd.Artifact.from_file(folder / "scaled.pdx")


def called(program: pd.Program) -> None:
    a = np.ones((3, 4), np.float32)
    f = program.scaled
    out = np.empty_like(a)
    assert f(a, 2.0, out=out) is out and f(a=a, k=2.0).sum() == 24
    call = f.prepare(a, 2.0)
    assert call() is call(), "a prepared call returns the same array each time"
    fresh = f.prepare(a, 2.0, fresh=True)
    assert fresh() is not fresh()
    future = f.submit(a, 3.0, priority="high")
    assert future.result(10).sum() == 36
    assert [r.sum() for r in f.submit_many([(a, 1.0), (a, 2.0)]).result()] == [12, 24]
    assert [r.sum() for r in f.map([(a, 1.0), (a, 2.0)], in_flight=2)] == [12, 24]
    print(f.profile(a, 2.0, runs=1), file=sys.stderr)
    assert f.signature and f.inputs[0].shape == ("d0", 4) and f.outputs[0].dtype == np.float32
    print(f.help(), f.plan_of(a, 2.0), program.functions, program.imports, program.parameters, file=sys.stderr)


def devices(artifact: pd.Artifact) -> None:
    with pd.device("cpu?workers=2&memory=64MiB") as device:
        program = device.load(artifact)
        called(program)
        called(pickle.loads(pickle.dumps(program)))
        buffer: pd.Buffer = device.upload(np.ones((2, 4), np.float32))
        assert np.asarray(buffer).sum() == 8 and device.empty((2, 4), np.float32).shape == (2, 4)
        print(device.memory()["peak_bytes"], device.describe()["name"], pd.devices(), file=sys.stderr)
        device.trim()
        provider = device.add_command("notify", lambda context: None)
        device.remove_plugin(provider)
        program.close()
    try:
        pd.device("cpu?workers=0")
    except pd.InvalidArgumentError as error:
        print(error, file=sys.stderr)


def kernels() -> None:
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    doubled(x, y)
    assert y.tolist() == [0, 2, 4, 6, 8]


def main(folder: Path) -> None:
    artifact = compiled(folder)
    devices(artifact)
    kernels()
    with pd.trace(folder / "trace.json"):
        pd.device("local-sync").load(artifact).scaled(np.ones((1, 4), np.float32), 1.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
