"""Prints a script that completes this command in a shell.

bash: source <(pydispatch completion bash)
zsh:  source <(pydispatch completion zsh)
fish: pydispatch completion fish | source
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch completion`."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the completion script. It contains all words, so that completion does not start Python."""
    from pydispatch.cli.__main__ import _parser

    words = _words(_parser(None), ())
    print(_fish(words) if args.shell == "fish" else _bash(words, zsh=args.shell == "zsh"))
    return 0


def _words(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> dict[tuple[str, ...], list[str]]:
    """Return the subcommands and options that may follow each path of subcommands.

    `()` is the path of the command itself, ("plugin", "build") that of a nested subcommand.
    """
    words: dict[tuple[str, ...], list[str]] = {path: []}
    for action in parser._actions:
        words[path] += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            words[path] += action.choices
            for name, inner in action.choices.items():
                words |= _words(inner, (*path, name))
    return words


def _bash(words: dict[tuple[str, ...], list[str]], zsh: bool) -> str:
    """Return a script that completes subcommands and options, else file names.

    The shell function in it joins the subcommands on the command line to a path, such as "plugin build", and selects
    the words that may follow by a `case` with a line for each path:

        "run") words="--device --input" ;;
        "plugin build") words="--output --arch" ;;

    Args:
        words: The result of `_words`.
        zsh: Whether the script is for zsh, which runs it through its emulation `bashcompinit`.
    """
    cases = "\n".join(
        f'    "{" ".join(path)}") words="{" ".join(choices)}" ;;' for path, choices in words.items() if path
    )
    # Commands with subcommands of their own, such as `plugin`: their second word belongs to the path.
    nesting = "|".join(sorted({path[0] for path in words if len(path) > 1}))
    start = "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n" if zsh else ""
    return f"""{start}_pydispatch() {{
  local path="" words="{" ".join(words[()])}" word="${{COMP_WORDS[COMP_CWORD]}}"
  [ "$COMP_CWORD" -gt 1 ] && path="${{COMP_WORDS[1]}}"
  case "$path" in
    {nesting}) [ "$COMP_CWORD" -gt 2 ] && path="$path ${{COMP_WORDS[2]}}" ;;
  esac
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _pydispatch pydispatch"""


def _fish(words: dict[tuple[str, ...], list[str]]) -> str:
    """Return a script that completes subcommands and options in fish. words: the result of `_words`."""
    lines = ["complete -c pydispatch -n __fish_use_subcommand -a '" + " ".join(words[()]) + "'"]
    for path, choices in words.items():
        if path:
            seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
            lines.append(f"complete -c pydispatch -n '{seen}' -a '{' '.join(choices)}'")
    return "\n".join(lines)
