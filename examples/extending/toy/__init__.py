"""One of each kind of thing that a package can add to pydispatch."""

from pydispatch.extensions import Extensions


def register(extensions: Extensions) -> None:
    """The entry point `pydispatch.extensions` of this package: what it has, and where."""
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
