"""`embedbroker transaction`: XA branches whose transaction manager does not decide them.

Responsible for the commands, against any broker that takes management messages, ours and Artemis. Does not depend on
what a decision does.
"""

from __future__ import annotations

import json
from typing import Any

import click

from ._failure import Refused
from ._groups import CommandGroup
from ._management_client import Change, Client, Columns, Manager, changing, managing, print_rows

__all__ = ["transaction"]

_PREPARED: Columns = {
    "ID": "xid_as_base64",
    "CREATED": "creation_time",
    "FORMAT": "xid_format_id",
    "GLOBAL ID": "xid_global_txid",
    "BRANCH": "xid_branch_qual",
    "SENT": "sent",
    "RECEIVED": "received",
}
_DECIDED: Columns = {"ID": "xid_as_base64", "OUTCOME": "outcome"}
_SENT = "(+) send"


@click.group(cls=CommandGroup, short_help="Show, commit and roll back XA branches in doubt.")
def transaction() -> None:
    """Look at XA branches that wait for their transaction manager, and decide those whose manager is lost."""


def _counted(row: dict[str, Any]) -> dict[str, Any]:
    kinds = [each["message_operation_type"] for each in row["tx_related_messages"]]
    return row | {"sent": kinds.count(_SENT), "received": len(kinds) - kinds.count(_SENT)}


@transaction.command("list")
@managing
@click.option("--json", "as_json", is_flag=True, help="One JSON line per branch, with its messages.")
def list_transactions(client: Client, as_json: bool) -> None:
    """Show the prepared branches, oldest first, with the numbers of messages that they sent and received."""

    async def work(manager: Manager) -> None:
        text = await manager.invoke("broker", "listPreparedTransactionDetailsAsJSON")
        rows = [_counted(row) for row in (json.loads(text) if text else [])]
        print_rows(rows, _PREPARED, as_json=as_json)

    client.manage(work)


@transaction.command("decided")
@managing
@click.option("--json", "as_json", is_flag=True, help="One JSON line per branch.")
def show_decided(client: Client, as_json: bool) -> None:
    """Show the branches that were decided in place of their manager, until it forgets them."""

    async def work(manager: Manager) -> None:
        rows: list[dict[str, Any]] = []
        for outcome, operation in (
            ("committed", "listHeuristicCommittedTransactions"),
            ("rolled-back", "listHeuristicRolledBackTransactions"),
        ):
            found = await manager.invoke("broker", operation)
            rows += [{"xid_as_base64": identifier, "outcome": outcome} for identifier in found]
        print_rows(rows, _DECIDED, as_json=as_json)

    client.manage(work)


def _decide(client: Client, identifier: str, operation: str, event: str) -> None:
    async def work(manager: Manager) -> Change:
        if not await manager.invoke("broker", operation, identifier):
            raise Refused(f"there is no prepared transaction {identifier}: `transaction list` shows the ids")
        return Change(event, "transaction", identifier)

    client.change(work)


@transaction.command("commit")
@changing
@click.argument("identifier", metavar="ID")
def commit_transaction(client: Client, identifier: str) -> None:
    """Commit branch ID in place of its transaction manager.

    Other resources of the transaction may be rolled back. Write -- before an ID that begins with a hyphen.
    """
    _decide(client, identifier, "commitPreparedTransaction", "committed")


@transaction.command("rollback")
@changing
@click.argument("identifier", metavar="ID")
def roll_back_transaction(client: Client, identifier: str) -> None:
    """Roll branch ID back in place of its transaction manager.

    Other resources of the transaction may be committed. Write -- before an ID that begins with a hyphen.
    """
    _decide(client, identifier, "rollbackPreparedTransaction", "rolled-back")
