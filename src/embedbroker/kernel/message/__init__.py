"""What a stored message is, in any encoding."""
