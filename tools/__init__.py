"""Programs for contributors: they write parts of the source. No package imports them."""
