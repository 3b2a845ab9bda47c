"""The options of `embedbroker drill`, and rules for their combinations.

Responsible for what can be refused before anything starts. Does not depend on how a drill is conducted.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from embedbroker.report import load_templates

from .._failure import WrongInput
from .._numbers import Number
from .._properties import as_properties
from ._plan import DrillPlan, Fault, Ha, Peer

__all__ = ["configs_of", "options", "plan_of"]

F = TypeVar("F", bound=Callable[..., Any])


def _report_file(_: click.Context, __: click.Parameter, text: str | None) -> Path | None:
    """Return the path of the report, once the drill can write it: a fault here must not wait for its end."""
    if text is None:
        return None
    if not text:
        raise click.BadParameter("the name of a report must not be empty")
    path = Path(text)
    if not os.access(path.absolute().parent, os.W_OK):
        raise click.BadParameter(f"{path.absolute().parent} is no directory that can be written to")
    try:
        load_templates()
    except ImportError as error:
        raise click.BadParameter(str(error)) from None
    return path


def _names(kind: type[Ha] | type[Fault] | type[Peer]) -> click.Choice[str]:
    return click.Choice([each.value for each in kind])


_file = click.Path(path_type=Path)
_OPTIONS = (
    click.option(
        "--cluster",
        metavar="N",
        type=click.IntRange(2, 16),
        help="Drill N nodes of one cluster, each with its own clients; they are struck in turn.",
    ),
    click.option(
        "--pairs", is_flag=True, help="Each node of the cluster is a pair: shared-store, or the kind of --ha."
    ),
    click.option("--ha", type=_names(Ha), default="none", show_default=True, help="How brokers stand in for others."),
    click.option(
        "--rounds", "--kills", default=5, show_default=True, type=click.IntRange(0, 10_000), help="How many faults."
    ),
    click.option(
        "--fault",
        "faults",
        multiple=True,
        type=_names(Fault),
        help="The fault of the broker that serves; the default is kill. Several faults take turns.",
    ),
    click.option(
        "--fault-seconds",
        default=2.0,
        show_default=True,
        type=Number(0.1),
        help="How long a freeze, a partition or a slow disk lasts.",
    ),
    click.option("--config", metavar="FILE", type=_file, help="The broker.xml of the broker, or of the primary."),
    click.option("--backup-config", metavar="FILE", type=_file, help="That of the backup."),
    click.option(
        "-D",
        "properties",
        metavar="NAME=VALUE",
        multiple=True,
        callback=as_properties,
        help="For ${NAME} in these files.",
    ),
    click.option(
        "--two-lives",
        is_flag=True,
        help="Drill a replicating pair of your own even if nothing keeps both from being live.",
    ),
    click.option("--peer", type=_names(Peer), default="embedbroker", show_default=True, help="Whose brokers."),
    click.option("--artemis-home", metavar="DIR", type=_file, help="Where Artemis is unpacked."),
    click.option(
        "--seconds",
        default=30.0,
        show_default=True,
        type=Number(1),
        help="How long messages are sent, at least.",
    ),
    click.option(
        "--producers", default=4, show_default=True, type=click.IntRange(1, 500), help="Of each node of a cluster."
    ),
    click.option(
        "--consumers", default=4, show_default=True, type=click.IntRange(1, 500), help="Of each node of a cluster."
    ),
    click.option("--size", default=1024, show_default=True, type=click.IntRange(1, 90_000), help="Bytes per message."),
    click.option("--seed", type=int, help="For the moments of the faults and the sizes of transactions."),
    click.option("--json", "json_wanted", is_flag=True, help="The verdict as JSON on stdout."),
    click.option(
        "--report",
        metavar="FILE.html",
        type=click.Path(dir_okay=False, writable=True),
        callback=_report_file,
        help="Write a page.",
    ),
    click.option("--keep", is_flag=True, help="Keep the directories even if all went well."),
)


def options(command: F) -> F:
    """Add all options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def plan_of(
    *,
    cluster: int | None,
    pairs: bool,
    ha: str,
    rounds: int,
    faults: Sequence[str],
    fault_seconds: float,
    peer: str,
    seconds: float,
    producers: int,
    consumers: int,
    size: int,
    seed: int | None,
    **_: object,
) -> DrillPlan:
    """Return the plan. Without a seed it gets a random one.

    Raises:
        WrongInput: options do not go together.
    """
    if pairs and cluster is None:
        raise WrongInput("--pairs is of use only with --cluster; --ha shared-store is a drill of one pair")
    if cluster is not None and not pairs and ha != Ha.NONE.value:
        raise WrongInput(f"--ha {ha} needs --pairs in a --cluster, where each node is a pair then")
    if pairs and ha == Ha.NONE.value:
        ha = Ha.SHARED_STORE.value
    seed = random.randrange(2**32) if seed is None else seed
    kinds = tuple(Fault(name) for name in faults) or (Fault.KILL,)
    return DrillPlan(
        seconds,
        producers,
        consumers,
        size,
        rounds,
        seed,
        Ha(ha),
        kinds,
        fault_seconds,
        Peer(peer),
        cluster or 1,
    )


def configs_of(
    plan: DrillPlan,
    config: Path | None,
    backup_config: Path | None,
    artemis_home: Path | None,
    properties: Mapping[str, str],
    *,
    two_lives: bool,
) -> tuple[Path, ...]:
    """Return the user's files: none, one or two.

    Raises:
        WrongInput: options do not go together.
    """
    for option, path in (("--config", config), ("--backup-config", backup_config)):
        if plan.nodes > 1 and path is not None:
            raise WrongInput(f"{option}: a drill writes the files of a --cluster itself")
    if plan.ha is Ha.NONE and backup_config is not None:
        raise WrongInput("--backup-config: there is no backup with --ha none")
    if plan.ha is not Ha.NONE and (config is None) != (backup_config is None):
        missing = "--config" if config is None else "--backup-config"
        raise WrongInput(f"{missing} is missing: a pair has two files, or none, and then the drill writes them")
    if two_lives and (plan.ha is not Ha.REPLICATION or config is None):
        raise WrongInput("--two-lives is of use only with --ha replication and files of your own")
    if properties and config is None:
        raise WrongInput("-D is of use only with --config: nothing else has ${NAME} in it")
    _check_peer(plan, artemis_home)
    if plan.peer is Peer.ARTEMIS and Fault.SLOW_DISK in plan.faults:
        raise WrongInput("--fault slow-disk: the syncs of --peer artemis cannot be slowed down from here")
    if plan.peer is Peer.ARTEMIS and config is not None and Fault.PARTITION in plan.faults:
        raise WrongInput(
            "--fault partition: with --peer artemis not on files of your own, whose ports would have to change"
        )
    return tuple(path for path in (config, backup_config) if path is not None)


def _check_peer(plan: DrillPlan, artemis_home: Path | None) -> None:
    if plan.peer is Peer.EMBEDBROKER:
        if artemis_home is not None:
            raise WrongInput("--artemis-home is of use only with --peer artemis")
        return
    if artemis_home is None:
        raise WrongInput("--peer artemis needs --artemis-home, the directory where Artemis is unpacked")
    command = artemis_home / "bin" / "artemis"
    if not os.access(command, os.X_OK):
        raise WrongInput(f"--artemis-home {artemis_home}: there is no program {command}")
