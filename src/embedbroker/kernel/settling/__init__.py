"""Settling of deliveries: outcomes, dead letters, expiry and delivery counts."""
