"""Operations of a workgroup on whole tiles (`pyd.read_tile`, `pyd.matmul`) → what targets have for them."""
