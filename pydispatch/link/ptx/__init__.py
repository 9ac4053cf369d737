"""PTX modules and libraries → one PTX text."""
