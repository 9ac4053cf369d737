"""Devices, found by name: a file or a folder for each."""
