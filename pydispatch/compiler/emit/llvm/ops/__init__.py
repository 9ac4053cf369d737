"""Operations of kernel IR → LLVM instructions, a file for each dialect or subject."""
