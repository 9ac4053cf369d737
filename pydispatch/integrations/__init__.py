"""Frameworks and pydispatch in one process: above the compiler and the runtime."""
