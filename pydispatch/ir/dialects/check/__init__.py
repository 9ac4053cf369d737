"""The `check` dialect: assertions of a test program, in the forms of IREE and of StableHLO."""
