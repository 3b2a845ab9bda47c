"""Drives the Java program in tests/interop/java by its line protocol: a JVM per client version, one case at a time."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from tests.interop.jvm import SMALL_PROGRAM
from tests.interop.programs import Program
from tests.interop.registry import APPLICATIONS_SOURCE, JAVA_SOURCE, applications_classpath, matrix_classpath

CASE_SECONDS_MAX = 50


def case_names() -> list[str]:
    """All cases that need one broker, read from the Java source, so that collecting needs no JVM."""
    names: list[str] = []
    matrix = (JAVA_SOURCE / "src/main/java/interop/Matrix.java").read_text()
    for family in re.findall(r"(\w+Cases)\.addTo", matrix):
        if family not in ("PythonCases", "PairCases"):
            names += cases_of(family)
    return names


def cases_of(family: str) -> list[str]:
    """The cases of one Java class."""
    return _cases_in(JAVA_SOURCE / f"src/main/java/interop/{family}.java")


def application_cases() -> list[str]:
    """All cases of the applications."""
    files = sorted((APPLICATIONS_SOURCE / "src/main/java/applications").glob("*Cases.java"))
    return [case for file in files for case in _cases_in(file)]


def _cases_in(file: Path) -> list[str]:
    return re.findall(r'cases\.put\("([^"]+)"', file.read_text())


JVM_OPTIONS = (*SMALL_PROGRAM, "-Dio.netty.noUnsafe=true")


class CaseProgram:
    """A running JVM whose program runs cases; a context manager."""

    def __init__(self, *words: str) -> None:
        self._program = Program(["java", *JVM_OPTIONS, *words])

    def run(self, case: str, url: str, answers: dict[str, Callable[[], None]]) -> str | None:
        """Runs one case and returns what went wrong, or None. `answers` is what the case may ask for.

        What an answer raises is raised when the case is over, so that the JVM is ready for the next one.
        """
        self._program.say(f"run {case} {url}")
        noise: list[str] = []
        refusals: list[BaseException] = []
        while (line := self._program.line(seconds_max=CASE_SECONDS_MAX)) is not None:
            match line.split(" ", 2):
                case ["ask", word]:
                    try:
                        answers[word]()
                    except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:
                        refusals.append(error)
                    self._program.say("refused" if refusals else "done")
                case ["ok" | "failed", name, *_] if name == case and refusals:
                    raise refusals[0]
                case ["ok", name, *_] if name == case:
                    return None
                case ["failed", name, text] if name == case:
                    return "\n".join([*text.split("\\n")[:25], *noise[-10:]])
                case _:
                    noise.append(line)
        return "\n".join(["the JVM ended", *noise[-40:]])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.kill()


class JmsMatrix(CaseProgram):
    """The JVM with one version of the Java client."""

    def __init__(self, client_version: str) -> None:
        # Netty of the 1.5 client looks into the JDK, which a current JDK allows only with an option.
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "java.lang", "sun.nio.ch")]
        super().__init__(*opened, "-cp", matrix_classpath(client_version), "interop.Matrix")


def matrix_of(matrices: dict[str, JmsMatrix], version: str) -> JmsMatrix:
    """The JVM with this version of the Java client, started when it is needed first."""
    found = matrices.get(version)
    if found is None:
        found = matrices[version] = JmsMatrix(version)
    return found


class Applications(CaseProgram):
    """The JVM with the applications of Spring Boot, Camel and pooled-jms."""

    def __init__(self) -> None:
        super().__init__("-cp", applications_classpath(), "applications.Applications")
