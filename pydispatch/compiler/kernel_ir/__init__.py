"""Kernel IR → kernel IR: passes that every emitter shares, and the data around a kernel."""
