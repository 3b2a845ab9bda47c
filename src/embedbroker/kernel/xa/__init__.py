"""XA branches, commit sets and fencing tokens."""
