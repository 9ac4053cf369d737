"""Operations of kernel IR → SPIR-V instructions, a file for each dialect or subject."""
