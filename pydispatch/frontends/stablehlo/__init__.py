"""Frontend for StableHLO and CHLO text, to which JAX and other frameworks lower."""
