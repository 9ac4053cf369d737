"""SPIR-V words → a checked module as data, and the interface of its entry points."""
