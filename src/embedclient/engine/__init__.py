"""Sans-I/O protocol state machines shared by client and broker; which side is ours is never known here."""
