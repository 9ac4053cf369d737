"""What a newcomer does first: several architectures and scalars in one program, and mistakes, with what is said then."""

from __future__ import annotations

from pathlib import Path

import assemble
import pytest
from tools import ptxas

CHECKS = Path(__file__).resolve().parents[1] / "checks"


def test_the_sweep_notices_what_ptxas_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ptxas()
    name, text = next(assemble.texts(CHECKS / "linalg_pack.mlir", ("sm_90",)))
    assert name.endswith(".ptx") and assemble.refused(text, may_spill=False) == ""
    broken = text.replace(b"ret;", b"frob;", 1)
    assert "'frob'" in assemble.refused(broken, may_spill=True)
    monkeypatch.setattr(assemble, "texts", lambda source, targets: [("one.ptx", broken)])
    assert assemble.check([tmp_path / "a.mlir"], {}, ("sm_90",), 1) == 1
