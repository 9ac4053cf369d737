"""Several modules of one language → one, without a driver or a vendor's tools."""
