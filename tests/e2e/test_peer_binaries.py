"""Binaries move both ways: what is compiled here runs under IREE's executable tool, what IREE compiles runs here."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd

pytestmark = pytest.mark.peer
ARCH = {"AMD64": "x86_64", "aarch64": "arm_64", "riscv64": "riscv_64"}.get(platform.machine(), platform.machine())
FORMAT = f"embedded-elf-{ARCH}"

# Every workgroup multiplies 16 elements and compares them, and what it was told about itself, with what is expected; a
# difference ends the process. So the peer's tool, which prints only times, shows whether it calls the kernel right.
KERNEL = """
#include <stddef.h>
#include <stdint.h>
void checked_mul(const float* a, const float* b, float* out, size_t size, size_t first, size_t count,
                 int32_t expected) {
  if (count != (size + 15) / 16) __builtin_trap();
  for (size_t i = first; i < first + 16 && i < size; ++i) {
    out[i] = a[i] * b[i];
    if (out[i] != (float)expected) __builtin_trap();
  }
}
"""

PROGRAM = f"""
#target = #hal.executable.target<"llvm-cpu", "{FORMAT}">
#layout = #hal.pipeline.layout<constants = 2, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer, ReadOnly>,
  #hal.pipeline.binding<storage_buffer>
]>
module attributes {{hal.device.targets = [#hal.device.target<"local", [#target]> : !hal.device]}} {{
  hal.executable private @checked {{
    hal.executable.variant public @here target(#target) objects([#hal.executable.object<{{path = "checked.c"}}>]) {{
      hal.executable.export public @first ordinal(0) layout(#layout) count(%device: !hal.device)
          -> (index, index, index) {{
        %one = arith.constant 1 : index
        hal.return %one, %one, %one : index, index, index
      }}
      hal.executable.export public @mul ordinal(1) layout(#layout) count(%device: !hal.device,
          %size: index) -> (index, index, index) {{
        %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 16)>()[%size]
        %one = arith.constant 1 : index
        hal.return %x, %one, %one : index, index, index
      }}
      builtin.module {{
        func.func private @checked_mul(memref<?xf32>, memref<?xf32>, memref<?xf32>, index, index, index, i32)
            attributes {{hal.import.static, llvm.bareptr = true}}
        func.func @first() {{
          return
        }}
        func.func @mul() {{
          %zero = arith.constant 0 : index
          %word = hal.interface.constant.load layout(#layout) ordinal(0) : i32
          %size = arith.index_castui %word : i32 to index
          %expected = hal.interface.constant.load layout(#layout) ordinal(1) : i32
          %id = hal.interface.workgroup.id[0] : index
          %count = hal.interface.workgroup.count[0] : index
          %first = affine.apply affine_map<()[s0] -> (s0 * 16)>()[%id]
          %a = hal.interface.binding.subspan layout(#layout) binding(0) alignment(64) offset(%zero)
              : memref<?xf32>{{%size}}
          %b = hal.interface.binding.subspan layout(#layout) binding(1) alignment(64) offset(%zero)
              : memref<?xf32>{{%size}}
          %c = hal.interface.binding.subspan layout(#layout) binding(2) alignment(64) offset(%zero)
              : memref<?xf32>{{%size}}
          func.call @checked_mul(%a, %b, %c, %size, %first, %count, %expected)
              : (memref<?xf32>, memref<?xf32>, memref<?xf32>, index, index, index, i32) -> ()
          return
        }}
      }}
    }}
  }}
  func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>, %expected: i32) -> tensor<?xf32> {{
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %word = arith.index_cast %size : index to i32
    %0 = flow.dispatch @checked::@here::@mul[%size](%word, %expected, %a, %b)
        : (i32, i32, tensor<?xf32>{{%size}}, tensor<?xf32>{{%size}}) -> tensor<?xf32>{{%size}}
    return %0 : tensor<?xf32>
  }}
}}
"""


def tool(name: str) -> Path:
    """A tool of the peer, which is installed next to Python."""
    found = Path(sys.executable).parent / name
    assert found.exists(), f"{found} is missing: pip install iree-base-compiler iree-base-runtime"
    return found


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> pd.Artifact:
    folder = tmp_path_factory.mktemp("checked")
    (folder / "checked.c").write_text(KERNEL)
    return pd.compile(PROGRAM, object_search_path=[folder])


def benchmark(artifact: pd.Artifact, folder: Path, device: str, expected: int) -> subprocess.CompletedProcess[str]:
    """Runs the kernel over 100 elements, 2 * 4 each, in the peer's tool."""
    (executable,) = artifact.executables
    library = folder / "checked.so"
    library.write_bytes(artifact.read(executable.variants[0].member))
    return subprocess.run(
        [
            tool("iree-benchmark-executable"), f"--device={device}", f"--executable_format={FORMAT}",
            f"--executable_file={library}", f"--entry_point={executable.exports.index('mul')}", "--constant=100",
            f"--constant={expected}", "--binding=100xf32=2", "--binding=100xf32=4", "--binding=100xf32=0",
            "--workgroup_count=7,1,1", "--batch_size=1", "--benchmark_min_time=1x",
        ],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
def test_the_peer_runs_what_we_compile(artifact: pd.Artifact, tmp_path: Path, device: str) -> None:
    done = benchmark(artifact, tmp_path, device, 8)
    assert done.returncode == 0, done.stderr
    assert "BM_dispatch" in done.stdout


def test_the_kernel_notices_a_wrong_product(artifact: pd.Artifact, tmp_path: Path) -> None:
    """The twin of the test above: it can fail."""
    done = benchmark(artifact, tmp_path, "local-sync", 9)
    assert done.returncode != 0 and "BM_dispatch" not in done.stdout


def test_we_run_it_too(artifact: pd.Artifact) -> None:
    two, four = np.full(100, 2, np.float32), np.full(100, 4, np.float32)
    assert pd.device("cpu").load(artifact).main(two, four, 8).tolist() == [8.0] * 100
