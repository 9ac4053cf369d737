"""Machines in software that devices run on."""
