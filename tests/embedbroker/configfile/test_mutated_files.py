"""Whatever is done to a file: it loads, or is refused with its name in every line. A failure names its seed."""

from __future__ import annotations

import random
import re
from pathlib import Path

from embedbroker.configfile import ConfigFileError, load_config

CREATED = Path(__file__).with_name("created_broker.xml").read_bytes()
WORDS = sorted(set(re.findall(rb"[A-Za-z-]{3,}", CREATED)))
PIECES = [
    b"", b"<", b">", b"</", b"&", b'"', b"${", b"}", b"::", b"#", b"*", b"-1", b"\x00", b"\xff", b"<!--", b"]]>",
    b"<![CDATA[", b"9" * 23, b"true", b"nan", b"1e999", "٣".encode(), b"<xi:include href='broker.xml'/>", b"?", b";",
    b"=", b"tcp://",
]  # fmt: skip
CHANGES_MAX = 2
FILES = 150


def mutated(chance: random.Random) -> bytes:
    """A file that `artemis create` wrote, with a few changes."""
    text = bytearray(CREATED)
    for _ in range(chance.randint(1, CHANGES_MAX)):
        start = chance.randrange(len(text))
        part = slice(start, start + chance.randrange(30))
        values = [found.span(1) for found in re.finditer(rb">([^<>]+)<|\"([^\"<>]+)\"", text) if found[1]]
        value = slice(*chance.choice(values)) if values else part
        where, what = chance.choice([(part, b""), (part, chance.choice(WORDS)), (value, chance.choice(PIECES + WORDS))])
        text[where] = what
    return bytes(text)


def test_a_mutated_file_loads_or_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    loaded = refused = 0
    for seed in range(FILES):
        file.write_bytes(mutated(random.Random(seed)))
        try:
            load_config(file, on_warning=len)
            loaded += 1
        except ConfigFileError as error:
            assert error.problems, seed
            assert all(problem.startswith(f"{file}: ") for problem in error.problems), seed
            refused += 1
    assert loaded > 0 and refused > 0
