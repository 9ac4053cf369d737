"""Lists the devices of this machine and the tools that would compile for them."""

from __future__ import annotations

import argparse
from typing import Any

from pydispatch.errors import Error
from pydispatch.packages import importing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pydispatch devices`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="devices to list; default: all but ptx-interpreter")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the properties of each device, then the compiler tools; return 0.

    With `args.names` these devices alone are printed, without the tools.
    """
    from pydispatch.runtime.device import device, devices

    described = {name: dict(device(name).describe()) for name in args.names or devices()}
    tools = {} if args.names else _tools()
    if args.json:
        import json

        print(json.dumps({"devices": described, "tools": tools}, indent=1))
        return 0
    for name, facts in described.items():
        print(name)
        for key, value in facts.items():
            if key != "name" and value:  # an empty property states nothing
                print(f"  {key}: {_property_text(value)}")
    if tools:
        print("tools")
    for key, tool in tools.items():
        print(f"  {key}: {tool}")
    return 0


def _property_text(value: Any) -> str:
    """Return a property of a device as text; a mapping from caches to bytes as KiB."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {size // 1024} KiB" for key, size in value.items() if size) or "unknown"
    return " ".join(value) if isinstance(value, list) else str(value)


def _tools() -> dict[str, str]:
    """Return the version of each tool that compiles or links, by its name.

    If none are usable, return the reason under the key "compiler".
    """
    try:
        with importing("compiling", "compiler"):
            import llvmlite  # noqa: F401
            import xdsl  # noqa: F401

            from pydispatch.compiler.backends.cuda import tools as cuda_tools
            from pydispatch.compiler.toolchain import tools as toolchain
    except Error as error:
        return {"compiler": str(error)}
    try:
        return toolchain.find().describe() | cuda_tools.describe()
    except toolchain.ToolchainError as error:
        return {"compiler": error.message}
