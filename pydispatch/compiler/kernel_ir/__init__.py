"""Kernel IR: passes over it that all emitters share, and the description of an executable around it."""
