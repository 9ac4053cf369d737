"""The host program (`program.bin`): opcodes, encoder and printer."""
