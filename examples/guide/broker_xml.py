"""A broker.xml as a configuration: its values, what has no effect yet, and what is
wrong with another one.
"""

import tempfile
from pathlib import Path

from embedbroker import ConfigFileError, load_config

FILE = Path(__file__).with_name("broker.xml")


def complain(warning: str) -> None:
    print("warning:", warning.removeprefix(f"{FILE}: "))


with tempfile.TemporaryDirectory() as directory:
    config = load_config(FILE, properties={"data": directory}, on_warning=complain)
    print(config.name, config.host, config.port)
    print(config.ha_policy)
    print(config.address_settings["#"].max_size_bytes, "bytes")

    wrong = Path(directory) / "broker.xml"
    wrong.write_text(
        FILE.read_text()
        .replace("failover-on-shutdown>", "failover-on-shutdwon>")
        .replace("Mb", "%")
    )
    try:
        load_config(wrong)
    except ConfigFileError as error:
        for problem in error.problems:
            print("error:", problem.removeprefix(f"{wrong}: "))
