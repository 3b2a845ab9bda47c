"""The pages of docs/howto: their files are shown, and the commands of service and container start and stop a broker."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "howto").glob("*.md"))
EXAMPLES = ROOT / "examples" / "howto"


def test_every_file_is_shown_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == set(
        re.findall(r"examples/howto/([\w.]+)\n", text)
    )


def words_of(file: str, pattern: str) -> list[str]:
    found = re.search(pattern, (EXAMPLES / file).read_text(), re.MULTILINE)
    assert found is not None
    return re.findall(r"[^\s\",\[\]]+", found[1])


def test_the_commands_of_unit_and_container_run_a_broker_until_sigterm(tmp_path: Path) -> None:
    configuration = tmp_path / "broker.xml"
    configuration.write_text((ROOT / "examples" / "guide" / "broker.xml").read_text())
    container = words_of("Containerfile", r"^ENTRYPOINT (.*)$") + words_of("Containerfile", r"^CMD (.*)$")
    for words in (words_of("embedbroker.service", r"^ExecStart=(.*)$"), container):
        program, *arguments = words
        assert program.endswith("embedbroker")
        places = {"/etc/embedbroker/broker.xml": str(configuration), "/var/lib/embedbroker": str(tmp_path / "data")}
        places["0.0.0.0"] = "127.0.0.1"
        command = [places.get(word, word) for word in arguments]
        with subprocess.Popen(
            [sys.executable, "-m", "embedbroker", *command, "--port", "0", "--json"], stdout=subprocess.PIPE, text=True
        ) as broker:
            assert broker.stdout is not None
            try:
                assert '"ready"' in broker.stdout.readline()
                broker.send_signal(signal.SIGTERM)
                assert broker.wait(30) == 0
            finally:
                broker.kill()
