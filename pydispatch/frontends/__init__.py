"""Frontends, which read models into programs: one folder per source format; `graph/` and `ops/` are shared by all."""
