"""Where the peers come from: Maven artifacts, copied once into a cache outside the work tree.

It lists the artifacts that the tests use, and does not read them. A peer that cannot be had fails the tests in CI
and skips them elsewhere, with the reason.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

ARTEMIS_VERSION = "2.44.0"
# The newest older one whose archive is still to be had by Maven, which a bridge of ours has to reach, too.
OLDER_ARTEMIS_VERSION = "2.31.2"
CLIENT_VERSIONS = ("2.44.0", "2.6.4", "1.5.6")
JAVA_SOURCE = Path(__file__).parent / "java"
APPLICATIONS_SOURCE = Path(__file__).parent / "applications"
JORAM_SOURCE = Path(__file__).parent / "joram"


def cache_directory() -> Path:
    """`EMBEDBROKER_PEERS`, or a folder in the user's cache."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    found = Path(os.environ.get("EMBEDBROKER_PEERS") or Path(root) / "embedbroker-peers")
    found.mkdir(parents=True, exist_ok=True)
    return found


def missing(what: str) -> NoReturn:
    """A peer is not to be had."""
    if os.environ.get("CI"):
        pytest.fail(f"peer missing: {what}", pytrace=False)
    pytest.skip(f"peer missing: {what}")


def _maven(*arguments: str, directory: Path) -> None:
    if shutil.which("mvn") is None or shutil.which("java") is None:
        missing("Maven and a JDK of 17 or later (Debian packages maven, openjdk-17-jdk-headless)")
    command = ["mvn", "--batch-mode", "--quiet", *arguments]
    run = subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False
    )
    if "COMPILATION ERROR" in run.stdout:
        pytest.fail(run.stdout[-3000:], pytrace=False)
    if run.returncode != 0:
        missing(f"{' '.join(command)}\n{(run.stdout + run.stderr)[-3000:]}")


def fetch_dependencies(project: Path, libraries: Path) -> None:
    """Copy everything that a project with a pom.xml needs into a folder."""
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    _maven(goal, f"-DoutputDirectory={libraries}", "-DincludeScope=runtime", directory=project)


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Test processes of one run need the same files: the first makes them, and the others wait."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def artemis_home(version: str = ARTEMIS_VERSION) -> Path:
    """The unpacked distribution of Apache Artemis."""
    peers = cache_directory()
    with one_at_a_time(peers / "artemis.lock"):
        return _unpacked_artemis(peers, version)


def _unpacked_artemis(peers: Path, version: str) -> Path:
    home = peers / f"apache-artemis-{version}"
    if (home / "complete").exists():
        return home
    archive = peers / f"apache-artemis-{version}-bin.zip"
    if not archive.exists():
        artifact = f"org.apache.activemq:apache-artemis:{version}:zip:bin"
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        _maven(goal, f"-Dartifact={artifact}", f"-DoutputDirectory={peers}", directory=peers)
    shutil.rmtree(home, ignore_errors=True)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(peers)
    (home / "bin" / "artemis").chmod(0o755)
    (home / "complete").touch()
    return home


@cache
def matrix_classpath(client_version: str) -> str:
    """The class path of the JMS matrix, built against one version of the client; built anew when its source changes."""
    return _class_path(JAVA_SOURCE, "jms-matrix", client_version, f"-Dclient.version={client_version}")


@cache
def applications_classpath() -> str:
    """The class path of the applications of frameworks, whose pom.xml names their versions."""
    return _class_path(APPLICATIONS_SOURCE, "applications", "spring-boot-3")


@cache
def joram_classpath() -> str:
    """The class path of Joram's suite, whose pom.xml names the version of the client."""
    return _class_path(JORAM_SOURCE, "joram", "joram-1.0")


def _class_path(source: Path, name: str, version: str, *options: str) -> str:
    digest = hashlib.sha256()
    for path in sorted([source / "pom.xml", *source.rglob("*.java"), *source.rglob("*.properties")]):
        digest.update(path.read_bytes())
    target = cache_directory() / name / f"{version}-{digest.hexdigest()[:16]}"
    with one_at_a_time(target.with_suffix(".lock")):
        if not (target / "complete").exists():
            shutil.rmtree(target, ignore_errors=True)
            _maven(*options, f"-Doutput.directory={target}", "package", directory=source)
            (target / "complete").touch()
    return f"{target / 'classes'}:{target / 'libraries'}/*"
