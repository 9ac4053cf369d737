"""Operations of kernel IR → WGSL statements, a file for each dialect or subject."""
