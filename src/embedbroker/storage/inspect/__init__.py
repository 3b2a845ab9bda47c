"""Journals that no broker uses: reports, scans and repair."""
