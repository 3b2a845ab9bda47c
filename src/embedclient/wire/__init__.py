"""Pure codecs: bytes to values and back, without state."""
