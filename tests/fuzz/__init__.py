"""Throws mutated traffic at the decoders."""
