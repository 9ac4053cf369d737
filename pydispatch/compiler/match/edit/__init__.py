"""Edits of the program for a match: calls, symbols, clean-up."""
