"""Makes the modules of `examples/llm` importable: its scripts import each other by name."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "llm"))
