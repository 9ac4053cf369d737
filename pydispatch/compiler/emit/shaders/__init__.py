"""What emitters of shaders share: values, memrefs without addresses, and the walk over regions."""
