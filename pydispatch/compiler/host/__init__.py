"""Host functions → the host program of an artifact."""
