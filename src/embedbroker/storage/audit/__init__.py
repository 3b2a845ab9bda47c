"""The audit log: its records, its files and its directory."""
