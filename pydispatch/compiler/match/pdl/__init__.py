"""PDL specs: matching and replacement."""
