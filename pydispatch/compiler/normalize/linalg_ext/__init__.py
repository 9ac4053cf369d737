"""Operations of `iree_linalg_ext` in terms of `linalg.generic` and `tensor`."""
