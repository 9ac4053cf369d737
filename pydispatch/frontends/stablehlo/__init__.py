"""StableHLO and CHLO: what JAX and other frameworks lower to, as text."""
