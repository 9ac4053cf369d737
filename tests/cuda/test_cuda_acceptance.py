"""What a newcomer does first: several architectures and scalars in one program; mistakes, and what is said then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import assemble
import check_files
import numpy as np
import pytest
from tools import nvcc, ptxas

import pydispatch as pd
from pydispatch.cli import __main__ as cli


def test_the_sweep_notices_what_ptxas_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ptxas()
    check_files.written()
    name, text = next(assemble.texts(check_files.BUILT / "linalg_pack.mlir", ("sm_90",)))
    assert name.endswith(".ptx") and assemble.refused(text, may_spill=False) == ""
    broken = text.replace(b"ret;", b"frob;", 1)
    assert "'frob'" in assemble.refused(broken, may_spill=True)
    monkeypatch.setattr(assemble, "texts", lambda source, targets: [("one.ptx", broken)])
    assert assemble.check([tmp_path / "a.mlir"], {}, ("sm_90",), 1) == 1


SCALARS = """extern "C" __global__ void scalars(const double* a, double* c, long long n, float s, double d, short h) {
  extern __shared__ double tile[];
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? a[i] : 0;
  __syncthreads();
  if (i < n) c[i] = tile[blockDim.x - 1 - threadIdx.x] * d + s + h + __CUDA_ARCH__;
}"""
KEYS = ", ".join(
    f"""#hal.executable.target<"cuda", "cuda-nvptx-fb", {{target_arch = "sm_{arch}"}}>
      = [#hal.executable.object<{{path = "kernels.cu"}}>]"""
    for arch in (90, 75, 80)
)
PROGRAM = f"""
hal.executable.source private @executable attributes {{objects = #hal.executable.objects<{{{KEYS}}}>}} {{
  hal.executable.export public @scalars ordinal(0)
      layout(#hal.pipeline.layout<constants = 6, bindings = [
        #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>)
      attributes {{workgroup_size = [32 : index, 1 : index, 1 : index], workgroup_local_memory = 256 : index}}
      count(%device: !hal.device, %n: index) -> (index, index, index) {{
    %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 32)>()[%n]
    %one = arith.constant 1 : index
    hal.return %x, %one, %one : index, index, index
  }}
}}
func.func @scale(%a: tensor<?xf64>, %s: f32, %d: f64, %h: i16) -> tensor<?xf64> {{
  %zero = arith.constant 0 : index
  %size = tensor.dim %a, %zero : tensor<?xf64>
  %n = arith.index_cast %size : index to i64
  %c = flow.dispatch @executable::@scalars[%size](%n, %s, %d, %h, %a)
      : (i64, f32, f64, i16, tensor<?xf64>{{%size}}) -> tensor<?xf64>{{%size}}
  return %c : tensor<?xf64>
}}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("acceptance")
    (folder / "program.mlir").write_text(PROGRAM)
    (folder / "kernels.cu").write_text(SCALARS)
    return folder


def test_source_for_three_architectures(folder: Path) -> None:
    """One .cu under three targets: compiled three times, the device takes its own; scalars of 2, 4 and 8 bytes."""
    nvcc()
    artifact = pd.compile(folder / "program.mlir", targets="cuda")
    x = np.arange(70, dtype=np.float64)
    turned = np.concatenate([x, np.zeros(26)]).reshape(3, 32)[:, ::-1].reshape(-1)[:70]
    for capability, arch in (("7.5", 750), ("8.6", 800), ("9.0", 900), ("12.0", 900)):
        program: Any = pd.device(f"ptx-interpreter?capability={capability}&races=1").load(artifact)
        got = program.scale(x, np.float32(0.5), 3.0, np.int16(-7))
        np.testing.assert_array_equal(got, turned * 3 + 0.5 - 7 + arch)
    with pytest.raises(pd.DeviceUnavailableError) as caught:
        pd.device("ptx-interpreter?capability=7.0").load(artifact)
    said = str(caught.value)
    assert "'cuda_nvptx_fb_sm_90' is PTX for sm_90, which this device of compute capability 7.0 does not run" in said
    assert "targets=('sm_70', ...)" in said and "nvcc -ptx -arch=sm_70" in said


def test_objects_for_another_backend(folder: Path) -> None:
    with pytest.raises(pd.CompileError, match=r"for them compile with targets='cuda', --target=cuda"):
        pd.compile(folder / "program.mlir", targets="cpu")


def test_machine_code_is_no_plugin() -> None:
    with pytest.raises(pd.ArtifactError, match=r"it is machine code: nvcc -ptx -rdc=true -arch=sm_75"):
        pd.device("ptx-interpreter").add_plugin(b"\x7fELF" + bytes(100))


def test_more_memory_than_there_is() -> None:
    with pytest.raises(pd.OutOfMemoryError, match=r"no memory for 4398046511104 bytes: \d+ of \d+ are in use; let go"):
        pd.device("ptx-interpreter").empty((1 << 20, 1 << 20))


def test_tools_that_the_environment_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = tmp_path / "nvcc"
    monkeypatch.setenv("PYDISPATCH_NVCC", str(missing))
    with pytest.raises(pd.CompileError, match=r"PYDISPATCH_NVCC=.*nvcc is no program that can be run"):
        pd.compile(folder / "program.mlir", targets="cuda")
    assert cli.main(["devices"]) == 0
    assert f"  cuda: PYDISPATCH_NVCC={missing} is no program" in capsys.readouterr().out
    missing.write_text("#!/bin/sh\necho release 99.1, V99.1.2\n")
    missing.chmod(0o755)
    monkeypatch.setenv("PYDISPATCH_PTXAS", "off")
    assert cli.main(["devices"]) == 0
    out = capsys.readouterr().out
    assert f"  cuda: 99.1, V99.1.2 from {missing}\n" in out and "  ptxas: none\n" in out


def test_a_tool_that_cannot_be_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = tmp_path / "nvcc"
    broken.write_text("neither a script nor a program")
    broken.chmod(0o755)
    monkeypatch.setenv("PYDISPATCH_NVCC", str(broken))
    monkeypatch.setenv("PYDISPATCH_PTXAS", "off")
    assert cli.main(["devices"]) == 0
    assert f"  cuda: finding its version: {broken} cannot be run: Exec format error\n" in capsys.readouterr().out
