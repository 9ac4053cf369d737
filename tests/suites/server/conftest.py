"""Makes the modules of `examples/llm` and of the engine's tests importable."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "examples" / "llm"), str(ROOT / "tests" / "generate")]
