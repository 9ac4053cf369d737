"""Program builder that all frontends share: element types, sizes, tensors and functions."""
