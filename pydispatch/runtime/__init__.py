"""Devices, and programs that are loaded on them."""
