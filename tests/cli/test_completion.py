"""`pydispatch completion`: the script runs in bash and offers what the parsers take."""

from __future__ import annotations

import subprocess

import pytest

from pydispatch.cli.__main__ import main


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["pydispatch", "fat"], {"fatelf"}),
        (["pydispatch", "fatelf", "sp"], {"split"}),
        (["pydispatch", "devices", "--js"], {"--json"}),
        (["pydispatch", "run", "p.pdx", "--inp"], {"--input"}),
        (["pydispatch", "devices", "--nothing"], set()),
    ],
)
def test_bash_completes(line: list[str], expected: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = f"\nCOMP_WORDS=({' '.join(line)}); COMP_CWORD={len(line) - 1}; _pydispatch; "
    ask += "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "--norc", "-c", script + ask], capture_output=True, text=True, check=True)
    assert (set(done.stdout.split()), done.stderr) == (expected, "")


def test_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err
