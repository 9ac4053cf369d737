"""A model of a framework → a program: one folder for each way in, `graph/` and `ops/` for all of them."""
