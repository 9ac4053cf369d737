"""Help of the subcommands: paragraphs fit into the terminal, and examples keep their lines."""

from __future__ import annotations

import argparse

import pytest

from pydispatch.cli.__main__ import _parser, commands


@pytest.mark.parametrize("name", sorted(commands()))
def test_descriptions_fit_into_the_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = _parser(name)
    (choices,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    subcommand = choices.choices[name]
    described = subcommand.format_help().partition("\n\n")[2].partition("arguments:\n")[0]
    assert [line for line in described.splitlines() if len(line) > 80] == []
    assert " ".join((subcommand.description or "").split()) in " ".join(described.split())


def test_examples_keep_their_lines() -> None:
    parser = _parser("stubgen")
    (choices,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    stubgen = choices.choices["stubgen"]
    assert stubgen.epilog is not None and stubgen.epilog.count("\n") >= 1
    assert stubgen.format_help().endswith(f"{stubgen.epilog}\n")
