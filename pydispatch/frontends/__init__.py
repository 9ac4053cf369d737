"""Frontends, which read models into programs: one folder per source format."""
