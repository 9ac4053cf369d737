"""Names that are suggested for misspelt ones."""

from __future__ import annotations

import pytest

import pydispatch as pd
from pydispatch.cli import __main__ as cli
from pydispatch.suggestions import close_matches, did_you_mean, nearest


def test_similar_names() -> None:
    known = ("matmul", "matvec", "transpose")
    assert close_matches("matmull", known) == ["matmul"]
    assert close_matches("matxxx", known, 2, 0.4) == ["matvec", "matmul"]
    assert did_you_mean("transpos", iter(known)) == "did you mean 'transpose'? "
    assert nearest("matmu", known, prefix="@") == "nearest: @matmul"


def test_no_similar_name() -> None:
    assert close_matches("softmax", ()) == []
    assert did_you_mean("softmax", ("matmul",)) == nearest("softmax", ("matmul",)) == ""


def test_a_misspelt_command_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["compil", "program.mlir"])
    assert end.value.code == 2
    assert "there is no command 'compil'; did you mean 'compile'? commands: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"), [("vulcan", "did you mean 'vulkan'? "), ("cud:1", "did you mean 'cuda'? "), ("gpu", "")]
)
def test_a_misspelt_device_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(pd.DeviceUnavailableError) as caught:
        pd.device(name)
    assert str(caught.value).startswith(f"there is no device '{name}'; {hint}this machine has: ")
