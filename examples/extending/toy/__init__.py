"""A package with one example of each kind of extension of pydispatch."""

from pydispatch.extensions import Extensions


def register(extensions: Extensions) -> None:
    """Register all extensions. It is the entry point of this package in the group `pydispatch.extensions`.

    Text "module:name" is imported only when the extension is used.
    """
    extensions.dialect("toy", "toy.dialect:Toy")
    extensions.conversions("toy.swish:CONVERSIONS")
    extensions.tensor_operations("toy.rules:RULES")
    extensions.compiler_pass("preprocessing", "toy.passes:remove_double_reverse")
    extensions.patterns("toy.patterns:PATTERNS")
    extensions.target("toy-text", "toy.target:BACKEND")
    extensions.device("toy", "toy.device")
    extensions.frontend("toy", "toy.frontend:FRONTEND")
    extensions.conversions("toy.histogram:CONVERSIONS")
    extensions.command("toy.histogram", "toy.histogram:histogram")
    extensions.subcommand("sizes", "toy.sizes")
