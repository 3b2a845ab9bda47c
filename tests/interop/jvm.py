"""How the tests start Java: for programs that run for seconds, most of whose time is their start."""

from __future__ import annotations

#: No optimising compiler, and no check of classes that come from Maven Central: half of the processor time of a start.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
#: For all but the brokers, whose scripts choose the memory.
SMALL_PROGRAM = ("-Xmx512M", "-XX:+UseSerialGC", *QUICK_START)
