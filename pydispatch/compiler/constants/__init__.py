"""Derivation of constants: values that are computed from constants alone become constants, computed once."""
