"""The pages of docs/howto: their files are shown, and the commands of service and container start and stop a broker."""

from __future__ import annotations

import asyncio
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from IPython.core.interactiveshell import InteractiveShell

from embedbroker import EmbeddedBroker
from embedbroker.pytest_plugin import BrokerPair
from embedclient import Connection, ConnectionFactory, TextMessage

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


PRINTED = {
    "context": "two coffees",
    "from_aio_pika": "done: two coffees\ndone: one tea\ndead letter: broken",
    "from_classic": "the error has the URL: True\ntwo coffees",
    "from_stomp": "two coffees for table 7",
    "notebook": "two coffees",
    "request_reply": "TEA",
    "script": "two coffees",
    "worker_pool": "40 jobs done",
}


FROM_OTHERS = {"from_aio_pika", "from_classic", "from_stomp"}


def test_there_are_nine_programs_and_those_of_others_of_at_most_35_lines() -> None:
    programs = {path.stem: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    nine = {*PRINTED.keys() - FROM_OTHERS, "web_application", "test_in_trio", "test_in_asyncio", "test_in_anyio"}
    assert len(nine) == 9
    assert set(programs) == nine | FROM_OTHERS | {"starlette_application"}
    assert max(programs.values()) <= 35


def test_each_url_and_parameter_for_those_who_move_is_one_of_the_client() -> None:
    page = (ROOT / "docs" / "howto" / "moving.md").read_text()
    cells = [row.split("|")[2] for row in page.splitlines() if row.startswith("| ")]
    codes = [code for cell in cells for code in re.findall(r"`([^`]*)`", cell)]
    urls = [url for code in codes for url in re.findall(r"\(?tcp://[^\s\"`]+", code)]
    # In the last table an option stands alone: "N" and "BYTES" are numbers to fill in.
    options = [code for code in codes if re.fullmatch(r"[a-zA-Z]+=\S+", code)]
    assert len(urls) >= 4 and len(options) >= 9
    for url in (*urls, *(f"tcp://a?{re.sub('N$|BYTES', '5', option)}" for option in options)):
        ConnectionFactory(url)


@pytest.mark.parametrize("name", sorted(PRINTED.keys() - {"notebook"}))
def test_a_program_prints_its_result(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.strip() == PRINTED[name]


def test_a_notebook_runs_cell_by_cell(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell()  # type: ignore[no-untyped-call]
    for cell in (EXAMPLES / "notebook.py").read_text().split("# %%")[1:]:
        shell.run_cell(cell).raise_error()  # type: ignore[no-untyped-call]
    assert capsys.readouterr().out.strip() == PRINTED["notebook"]


def test_tests_pass_with_the_runner_that_each_asks_for(tmp_path: Path) -> None:
    files = [str(path) for path in EXAMPLES.glob("test_*.py")]
    command = ["-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", *files]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300, check=False)
    assert "6 passed" in done.stdout, done.stdout + done.stderr  # each with both kinds of pairs


# -- the web application -----------------------------------------------------------------------------------------------


async def serve_prices(connection: Connection) -> None:
    async with connection.session() as session, session.create_consumer("prices") as requests:
        replies = session.create_producer()
        async for request in requests:
            reply = TextMessage(f"{len(str(request.body))} EUR", correlation_id=request.message_id)
            await replies.send(reply, destination=request.reply_to)


async def hit(count: int) -> tuple[list[int], list[str]]:
    """Start the application, send it requests at once, and return the answers to orders, and the prices."""
    app = runpy.run_path(str(EXAMPLES / "web_application.py"))["app"]
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=None) as client,
        asyncio.TaskGroup() as group,
    ):
        service = group.create_task(serve_prices(app.state.connection))
        orders = [group.create_task(client.post(f"/orders/{number}")) for number in range(count)]
        prices = [group.create_task(client.get(f"/prices/{'x' * (number % 9 + 1)}")) for number in range(count)]
        codes = [(await order).status_code for order in orders]
        answers = [(await price).json() for price in prices]
        service.cancel()
    return codes, answers


def test_a_web_application_answers_200_requests_at_once() -> None:
    codes, prices = asyncio.run(hit(100))
    assert codes == [202] * 100
    assert prices == [f"{number % 9 + 1} EUR" for number in range(100)]


def test_a_web_application_of_starlette_takes_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    app = runpy.run_path(str(EXAMPLES / "starlette_application.py"))["app"]

    async def order() -> httpx.Response:
        async with app.router.lifespan_context(app) as state:

            async def with_state(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
                await app({**scope, "state": dict(state)}, receive, send)  # what a server does

            async with httpx.AsyncClient(transport=httpx.ASGITransport(with_state), base_url="http://shop") as client:
                return await client.post("/orders/tea")

    with EmbeddedBroker.in_thread() as broker:
        monkeypatch.setenv("BROKER_URL", broker.url)
        answer = asyncio.run(order())
        assert (answer.status_code, answer.json()) == (202, {"accepted": "tea"})
        assert broker.queue("orders").message_count == 1


@pytest.mark.asyncio
async def test_a_web_application_survives_a_failover(broker_pair: BrokerPair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_URL", broker_pair.url)
    app = runpy.run_path(str(EXAMPLES / "web_application.py"))["app"]
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=None) as client,
    ):

        async def order(number: int) -> None:
            # An order in doubt fails, and its customer tries again.
            while (await client.post(f"/orders/{number}")).status_code != 202:
                pass

        async with asyncio.TaskGroup() as customers:
            for number in range(100):
                customers.create_task(order(number))
            await broker_pair.failover()
            for number in range(100, 200):
                customers.create_task(order(number))
        async with app.state.connection.session() as session, session.create_consumer("orders") as consumer:
            received = set[object]()
            while len(received) < 200:
                received.add((await consumer.receive(timeout=30)).body)
    assert received == {str(number) for number in range(200)}
