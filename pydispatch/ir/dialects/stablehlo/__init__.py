"""The StableHLO dialect: the operations of JAX's and other frameworks' programs, in their pretty and generic forms."""
