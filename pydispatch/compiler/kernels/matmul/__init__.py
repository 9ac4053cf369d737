"""Contractions (products, convolutions) with all that is fused around them → kernel IR."""
