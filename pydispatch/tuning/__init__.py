"""Choices by measurement: how dispatches are computed on this machine, above the compiler and the runtime."""
