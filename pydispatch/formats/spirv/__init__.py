"""SPIR-V words → a checked module as data, and what its entry points expect."""
