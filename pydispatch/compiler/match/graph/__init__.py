"""Data-flow graph of a program, whose nodes are compared with those of patterns."""
