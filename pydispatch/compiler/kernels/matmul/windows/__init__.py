"""Reductions over sliding windows on CPUs: depthwise convolutions and poolings."""
