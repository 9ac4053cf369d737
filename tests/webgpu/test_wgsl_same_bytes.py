"""WGSL does not depend on what a process compiled before."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib, sys
import pydispatch as pd

INDEX = '''
    %i = linalg.index 0 : index
    %large = arith.constant 6364136223846793005 : index
    %m = arith.muli %i, %large : index
    %w = arith.index_cast %m : index to i64
    %s = arith.trunci %w : i64 to i32
    %f = arith.sitofp %s : i32 to f32'''
PLAIN = '''
    %f = arith.negf %a : f32'''

for kind in sys.argv[1:]:
    artifact = pd.compile(f'''
func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {{
  %r = linalg.generic {{
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
      ins(%x : tensor<64xf32>) outs(%x : tensor<64xf32>) {{
  ^bb0(%a: f32, %o: f32):{INDEX if kind == "wide" else PLAIN}
    %t = math.tan %f : f32
    linalg.yield %t : f32
  }} -> tensor<64xf32>
  return %r : tensor<64xf32>
}}''', targets="webgpu")
print(hashlib.sha256(artifact.to_bytes()).hexdigest())
"""


def digest(*kinds: str) -> str:
    """Compile programs in a new process, and return the digest of the last artifact."""
    environment = {**os.environ, "PYDISPATCH_CACHE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *kinds], env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout


def test_a_program_with_wide_indices_does_not_change_the_next_one() -> None:
    assert digest("plain") == digest("wide", "plain")
