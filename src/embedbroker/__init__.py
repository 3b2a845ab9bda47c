"""A message broker that lives inside a Python process."""
