"""Transactions, duplicate detection, and when messages become visible."""
