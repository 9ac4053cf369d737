"""Every operation of StableHLO for every element type that its specification allows, as data: rows by subject."""
