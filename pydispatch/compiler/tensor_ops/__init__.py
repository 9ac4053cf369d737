"""Operations on tensors: one rule class for each, with everything that the compiler knows of it."""
