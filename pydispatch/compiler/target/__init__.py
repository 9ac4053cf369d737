"""Compilation targets: names, architectures, CPU levels, capabilities, and the choice of targets for a program."""
