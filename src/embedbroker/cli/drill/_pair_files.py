"""The broker.xml files of a drill: written for it, or the user's own, which must fit together.

Responsible for what a drill needs of a configuration. Does not depend on processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from attrs import frozen

from embedbroker import BrokerConfig, ConfigFileError, load_config

from .._failure import WrongInput
from ._directories import Directory, directories_of, foreign_directories
from ._plan import Fault, Ha, Peer
from ._queue_settings import dead_letters_of, objection_to
from ._quorum import why_two_lives

__all__ = ["BrokerFile", "read_files", "write_files"]

# The first one is the only one, too.
_NAMES = ("primary", "backup")
_ANY = ("0.0.0.0", "::", "")

_TEXT = """<?xml version='1.0'?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>{name}</name>
    <persistence-enabled>true</persistence-enabled>
    <security-enabled>false</security-enabled>
    <journal-type>NIO</journal-type>
    <journal-directory>{store}/journal</journal-directory>
    <bindings-directory>{store}/bindings</bindings-directory>
    <paging-directory>{store}/paging</paging-directory>
    <large-messages-directory>{store}/large-messages</large-messages-directory>
    <connectors>
      {connectors}
    </connectors>
    <acceptors>
      <acceptor name="core">tcp://127.0.0.1:{listen}?protocols=CORE</acceptor>
    </acceptors>
    <cluster-user>drill</cluster-user>
    <cluster-password>drill of {directory}</cluster-password>{parts}
    <address-settings>
      <address-setting match="#">
        <dead-letter-address>DLQ</dead-letter-address>
        <max-delivery-attempts>-1</max-delivery-attempts>
        <redelivery-delay>0</redelivery-delay>
        <auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses>{redistribution}
      </address-setting>
    </address-settings>
    <addresses>
      <address name="DLQ"><anycast><queue name="DLQ"/></anycast></address>
    </addresses>
  </core>
</configuration>
"""
_CLUSTER_TEXT = """
    <cluster-connections>
      <cluster-connection name="drill">
        <connector-ref>own</connector-ref>
        <message-load-balancing>ON_DEMAND</message-load-balancing>
        <max-hops>1</max-hops>
        <static-connectors>{others}</static-connectors>
      </cluster-connection>
    </cluster-connections>"""
_POLICY_TEXT = """
    <ha-policy>{policy}</ha-policy>"""
# A consumer that is away takes nothing, and its messages are wanted at other nodes.
_REDISTRIBUTION_TEXT = """
        <redistribution-delay>0</redistribution-delay>"""

# Both brokers are on this machine: if they cannot reach each other, a folder of locks decides which is live.
_MANAGER = (
    "<manager><class-name>org.apache.activemq.artemis.lockmanager.file.FileBasedLockManager</class-name>"
    '<properties><property key="locks-folder" value="{locks}"/></properties></manager>'
)


@frozen
class _Kind:
    """What the files of a pair contain for one kind of pair: policies, and one journal or two."""

    policies: tuple[str, str]
    texts: tuple[str, str]
    shares_store: bool


_KINDS = {
    Ha.SHARED_STORE: _Kind(
        ("SharedStorePrimary", "SharedStoreBackup"),
        (
            "<shared-store><primary><failover-on-shutdown>true</failover-on-shutdown></primary></shared-store>",
            "<shared-store><backup><failover-on-shutdown>true</failover-on-shutdown></backup></shared-store>",
        ),
        shares_store=True,
    ),
    Ha.REPLICATION: _Kind(
        ("ReplicationPrimary", "ReplicationBackup"),
        (
            f"<replication><primary>{_MANAGER}{{group}}</primary></replication>",
            f"<replication><backup>{_MANAGER}{{group}}<allow-failback>true</allow-failback></backup></replication>",
        ),
        shares_store=False,
    ),
}


@frozen
class BrokerFile:
    """One broker's file.

    Clients reach the broker at ``host`` and ``port``; ``listens`` is its own listening address.
    """

    name: str
    path: Path
    host: str
    port: int
    listens: int
    store: Path
    #: The node of a cluster to which the broker belongs; empty where the drill has one node only.
    node: str = ""
    properties: tuple[str, ...] = ()
    #: Address for messages whose delivery attempts are exhausted; None if they are dropped.
    dead_letters: str | None = "DLQ"
    #: Of a user's file: directories that must be as before when the drill is over.
    directories: tuple[Directory, ...] = ()

    @property
    def is_relayed(self) -> bool:
        """True if a relay stands between clients and the broker."""
        return self.listens != self.port


def write_files(directory: Path, ha: Ha, ports: Iterable[int], *, relayed: bool, nodes: int = 1) -> list[BrokerFile]:
    """Write the files of the brokers, node by node, which both Artemis and this broker can read.

    Journals are in ``directory``. With more than one of the ``nodes`` these are a cluster.
    """
    free = iter(ports)
    kind = _KINDS.get(ha)
    if kind is not None and not kind.shares_store:
        (directory / "locks").mkdir()
    files: list[BrokerFile] = []
    for node in [f"node{number}" for number in range(1, nodes + 1)] if nodes > 1 else [""]:
        for role in _NAMES[: 1 if kind is None else 2]:
            name = role if not node else node if kind is None else f"{node}-{role}"
            port = next(free)
            listens = next(free) if relayed else port
            owner = node if kind is None or kind.shares_store else name
            place = directory / (f"{owner}-store" if owner else "store")
            files.append(
                BrokerFile(name, directory / f"{name}.xml", "127.0.0.1", port, listens, place / "journal", node)
            )
    for number, file in enumerate(files):
        role_number = number % 2 if kind is not None else 0
        file.path.write_text(_text_of(file, files, kind, role_number, directory), encoding="utf-8")
    return files


def _text_of(file: BrokerFile, files: list[BrokerFile], kind: _Kind | None, role_number: int, directory: Path) -> str:
    others = {f"other{number}": each for number, each in enumerate(files, 1) if each is not file}
    places = {"own": file, **others}
    parts = ""
    if others:
        parts += _CLUSTER_TEXT.format(others="".join(f"<connector-ref>{name}</connector-ref>" for name in others))
    if kind is not None:
        locks = quoteattr(str(directory / "locks"))[1:-1]
        # Without it a backup joins the primary of any node.
        group = f"<group-name>{file.node}</group-name>" if file.node else ""
        parts += _POLICY_TEXT.format(policy=kind.texts[role_number].format(locks=locks, group=group))
    return _TEXT.format(
        name=file.name,
        store=escape(str(file.store.parent)),
        connectors="\n      ".join(
            f'<connector name="{name}">tcp://127.0.0.1:{each.port}</connector>' for name, each in places.items()
        ),
        listen=file.listens,
        directory=escape(directory.name),
        parts=parts,
        redistribution=_REDISTRIBUTION_TEXT if file.node else "",
    )


def read_files(
    paths: list[Path],
    ha: Ha,
    faults: tuple[Fault, ...],
    properties: Mapping[str, str],
    ports: Iterable[int],
    *,
    peer: Peer = Peer.EMBEDBROKER,
    two_lives: bool = False,
) -> list[BrokerFile]:
    """Read the user's files. ``two_lives``: accept a replicating pair of which both brokers may be live.

    Raises:
        WrongInput: a file cannot be read, is wrong, or does not fit a drill; the text names it.
    """
    configs = [(path, _read(path, properties)) for path in paths]
    kind = _KINDS.get(ha)
    for (path, config), policy in zip(configs, ("PrimaryOnly",) if kind is None else kind.policies, strict=True):
        found = type(config.ha_policy).__name__
        if found != policy:
            raise WrongInput(f"{path}: its ha-policy is a {found}, and --ha {ha.value} needs a {policy} there")
        _check(path, config, faults)
    if kind is not None:
        _check_pair(kind, *configs)
        if not kind.shares_store and not two_lives:
            _check_lives(*configs)
    free = iter(ports)
    relayed = Fault.PARTITION in faults
    settings = tuple(f"{name}={value}" for name, value in properties.items())
    return [
        BrokerFile(
            name,
            path.absolute(),
            "127.0.0.1" if config.listens_at[0].host in _ANY else config.listens_at[0].host,
            config.listens_at[0].port,
            next(free) if relayed else config.listens_at[0].port,
            Path(str(config.data_directory)),
            properties=settings,
            dead_letters=dead_letters_of(config),
            directories=_directories(path, config, peer, properties),
        )
        for name, (path, config) in zip(_NAMES, configs, strict=False)
    ]


def _read(path: Path, properties: Mapping[str, str]) -> BrokerConfig:
    try:
        return load_config(path, properties=properties, on_warning=lambda _: None)
    except ConfigFileError as error:
        raise WrongInput("; ".join(error.problems)) from error
    except OSError as error:
        raise WrongInput(f"cannot read {path}: {error.strerror}") from error


def _check(path: Path, config: BrokerConfig, faults: tuple[Fault, ...]) -> None:
    if config.data_directory is None:
        raise WrongInput(f"{path}: persistence-enabled is false, and a drill is about what is kept")
    if config.listens_at[0].port == 0:
        raise WrongInput(f"{path}: its acceptor has port 0, and clients have to find it again on the same one")
    if not config.listens_at[0].auto_start:
        raise WrongInput(f"{path}: its first acceptor has autoStart=false, and clients have to find it")
    if Fault.PARTITION in faults and len(config.listens_at) > 1:
        raise WrongInput(f"{path}: --fault partition needs a broker with one acceptor, because a relay takes its port")
    objection = objection_to(config)
    if objection is not None:
        raise WrongInput(f"{path}: {objection}")
    policy = config.ha_policy
    if Fault.STOP in faults and not getattr(policy, "failover_on_shutdown", True):
        raise WrongInput(f"{path}: --fault stop needs failover-on-shutdown true, or no broker takes over")
    if not getattr(policy, "allow_failback", True):
        raise WrongInput(f"{path}: allow-failback is false, and a drill goes back to the primary in each round")


def _directories(path: Path, config: BrokerConfig, peer: Peer, properties: Mapping[str, str]) -> tuple[Directory, ...]:
    if peer is Peer.ARTEMIS:
        return tuple(foreign_directories(path, properties))
    return tuple(directories_of(path, config))


def _check_pair(kind: _Kind, primary: tuple[Path, BrokerConfig], backup: tuple[Path, BrokerConfig]) -> None:
    (first, ours), (second, theirs) = primary, backup
    if not kind.shares_store and ours.data_directory == theirs.data_directory:
        raise WrongInput(f"{second}: its data directory is {ours.data_directory}, and so is that of {first}")
    for what in ("data_directory", "node_manager_lock_directory"):
        mine, other = getattr(ours, what), getattr(theirs, what)
        if kind.shares_store and mine != other:
            raise WrongInput(f"{second}: its {what.replace('_', ' ')} is {other}, and that of {first} is {mine}")
    if (ours.host, ours.port) == (theirs.host, theirs.port):
        raise WrongInput(f"{second}: it listens on port {theirs.port}, and so does {first}")


def _check_lives(primary: tuple[Path, BrokerConfig], backup: tuple[Path, BrokerConfig]) -> None:
    (first, ours), (second, theirs) = primary, backup
    reason = why_two_lives(ours, theirs)
    if reason is not None:
        raise WrongInput(
            f"{first}, {second}: in a partition both may be live, and what one of them confirms is lost; {reason}. "
            "With --two-lives they are drilled as they are"
        )
