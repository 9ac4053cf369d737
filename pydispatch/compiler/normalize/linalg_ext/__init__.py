"""Operations of `iree_linalg_ext` and `tm_tensor`: generics, recurrences and updates."""
