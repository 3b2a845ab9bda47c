"""Directories of Artemis brokers, as `artemis create` makes them, without a Java process for each.

That command runs once for each set of options; a further broker gets a copy with its own paths and ports.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.interop.registry import ARTEMIS_VERSION, artemis_home, cache_directory, one_at_a_time

# The first of the ports in a model; no number like it is in a file of Artemis.
MODEL_PORT = 59001


def create_instance(directory: Path, options: Sequence[str | Path], version: str = ARTEMIS_VERSION) -> None:
    """Make what `artemis create DIRECTORY OPTIONS` makes; ports are those behind `127.0.0.1:` or `--default-port`."""
    words = [str(word) for word in options]
    home = artemis_home(version)
    own: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        ports = re.findall(r"127\.0\.0\.1:(\d+)", word) + ([following] if word == "--default-port" else [])
        own |= {port: str(MODEL_PORT + len(own)) for port in ports if port not in own}
    model_words = [_replaced(word, own) for word in words]
    paths = {str(option): f"elsewhere{number}" for number, option in enumerate(options) if isinstance(option, Path)}
    key = "\n".join([str(home), *(paths.get(word, word) for word in model_words)])
    model = cache_directory() / "artemis-instances" / hashlib.sha256(key.encode()).hexdigest()[:16]
    paths = {path: str(model / name) for path, name in paths.items()}
    with one_at_a_time(model.with_suffix(".lock")):
        if not (model / "complete").exists():
            shutil.rmtree(model, ignore_errors=True)
            # How fast the disk is now would be measured, which takes seconds, and be in use for ever.
            command: list[str | Path] = [home / "bin" / "artemis", "create", model / "instance", "--no-autotune"]
            command += [paths.get(word, word) for word in model_words]
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
            (model / "complete").touch()
    shutil.copytree(model / "instance", directory)
    back = {there: port for port, there in own.items()} | {there: path for path, there in paths.items()}
    back[str(model / "instance")] = str(directory)
    for file in [*(directory / "etc").iterdir(), *(directory / "bin").iterdir()]:
        file.write_text(_replaced(file.read_text(), back))


def _replaced(text: str, changes: dict[str, str]) -> str:
    """Replace all at once, so that what one brings in is not replaced by another."""
    if not changes:
        return text
    pattern = "|".join(re.escape(old) for old in sorted(changes, key=len, reverse=True))
    return re.sub(pattern, lambda found: changes[found[0]], text)
