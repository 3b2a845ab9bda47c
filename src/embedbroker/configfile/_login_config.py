"""``login.config`` beside a broker.xml: the login modules that `artemis create` writes, and their files.

Responsible for the modules for users in properties files and for guests, and for changes of these files. Does not
depend on permissions and on the elements of a broker.xml.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, field, frozen

from embedbroker.config import GuestLogin, User, UserChange
from embedbroker.security import SALT_BYTES, InvalidHash, StoredPassword, hash_password_as_artemis

from ._findings import Findings
from ._java_properties import PropertiesFile, read_properties
from ._stamp import Stamp, stamp_of
from ._substitution import CircularProperties, substitute

__all__ = ["FILE_NAME", "LoginConfig", "LoginFiles", "read_login_config"]

FILE_NAME = "login.config"
_DOMAIN = "activemq"
_FLAGS = ("required", "requisite", "sufficient", "optional")
_NEEDED = ("required", "requisite")
_PROPERTIES, _GUEST = "PropertiesLoginModule", "GuestLoginModule"
_CERTIFICATES = "TextFileCertificateLoginModule"
_USERS, _ROLES = "org.apache.activemq.jaas.properties.user", "org.apache.activemq.jaas.properties.role"
_SUBJECTS, _SUBJECT_ROLES = "org.apache.activemq.jaas.textfiledn.user", "org.apache.activemq.jaas.textfiledn.role"
_GUEST_USER, _GUEST_ROLE = "org.apache.activemq.jaas.guest.user", "org.apache.activemq.jaas.guest.role"
_TOKEN = re.compile(r"""\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*|"((?:[^"\\]|\\.)*)"|([{};=])|([^\s{};="]+)""", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_JAAS_DOMAIN = re.compile(r"""<jaas-security\s[^>]*?\bdomain\s*=\s*["']([^"']+)["']""")


@frozen
class LoginConfig:
    """Hold what the login modules of a file allow."""

    users: tuple[User, ...] = ()
    guest: GuestLogin | None = None
    #: Files of the modules that must be read again after a change.
    reloaded: tuple[Path, ...] = ()
    #: Files of users and of roles of the first module for users with passwords; None without one.
    changed: tuple[Path, Path] | None = None
    domain: str = ""


@frozen
class _Module:
    kind: str
    flag: str
    options: dict[str, str] = field(factory=dict)


class LoginFiles:
    """Read the users of a login configuration again, and change them.

    Files of its modules with ``reload=true`` are read again when they change.

    Args:
        folder: Directory of ``login.config``.
        properties: Values for references in files.
        login: What the files contain now.
    """

    def __init__(self, folder: Path, properties: Mapping[str, str], login: LoginConfig) -> None:
        self._folder = folder
        self._properties = dict(properties)
        self._files = login.reloaded
        self._changed = login.changed
        self._domain = login.domain
        self.loaded = (login.users, login.guest)
        self._stamps = self._stamped()

    def refresh(self, *, always: bool = False) -> tuple[tuple[User, ...], GuestLogin | None] | None:
        """Return users and guest login if a file changed since the last call that read it; None otherwise.

        A change that could not be read counts as one again: the reason may pass, such as a shortage of descriptors.

        Args:
            always: Whether files are read that did not change, or are not observed.

        Raises:
            ConfigFileError: The files are wrong now.
        """
        stamps = self._stamped()
        if stamps == self._stamps and not always:
            return None
        findings = Findings()
        login = read_login_config(self._folder, self._properties, findings)
        findings.raise_if_wrong()
        # Those from before the files were read: a change during that is a further one.
        self._stamps = stamps
        return (login.users, login.guest) if login is not None else ((), None)

    def list_users(self, name: str | None) -> dict[str, list[str]]:
        """Return the roles of each user in the files, or of one name, which need not be a user, as in Artemis."""
        users, roles = self._opened()
        names = [name] if name else users.values
        members = {role: listed.split(",") for role, listed in roles.values.items() if role.strip()}
        return {user: sorted(role for role in members if user in members[role]) for user in names}

    def change(self, change: UserChange) -> None:
        """Change the file of users and that of roles, each of which is replaced as a whole.

        Raises:
            ValueError: The user exists already, or does not, or a file cannot be read or written.
        """
        users, roles = self._opened()
        change.check(exists=change.name in users.values)
        if change.removes:
            users.remove(change.name)
        elif change.password is not None:
            users.set(change.name, _stored(change.password, hashes=change.hashes))
        if change.roles is not None or change.removes:
            _set_roles(roles, change.name, change.roles or ())
        for file in (users, roles):
            file.check_length()
        # A crash between the two files must leave an operation that can be repeated: a new user comes last.
        for file in (roles, users) if change.adds else (users, roles):
            try:
                file.write()
            except OSError as error:
                raise ValueError(f"the files of users cannot be written: {error.strerror or error}") from None

    def _opened(self) -> tuple[PropertiesFile, PropertiesFile]:
        if self._changed is None:
            raise ValueError(f"AMQ229222: Failed to find login module entry {self._domain} from JAAS configuration")
        files = []
        for path, title in zip(
            self._changed, ("AMQ229220: Failed to load user", "AMQ229221: Failed to load role"), strict=True
        ):
            try:
                files.append(PropertiesFile(path))
            except (OSError, ValueError) as error:
                raise ValueError(f"{title} file: {path}: {getattr(error, 'strerror', None) or error}") from None
        return files[0], files[1]

    def _stamped(self) -> list[Stamp]:
        return [stamp_of(path) for path in self._files]


def _stored(password: str, *, hashes: bool) -> str:
    """Return a password as the file of users has it.

    Raises:
        InvalidHash: It is ``ENC(...)`` without a hash in it: with such a file there would be no users at all.
    """
    stored = hash_password_as_artemis(password, os.urandom(SALT_BYTES)) if hashes else password
    StoredPassword(stored)
    return stored


def _set_roles(file: PropertiesFile, user: str, wanted: Sequence[str]) -> None:
    """Let a user have these roles only. A role without a user is removed from the file, as in Artemis.

    As for logins, a blank is a part of the name.
    """
    present = file.values
    for role in dict.fromkeys([*present, *wanted]):
        members = [each for each in present.get(role, "").split(",") if each]
        after = [each for each in members if each != user]
        if role in wanted:
            after.append(user)
        if after and after != members:
            file.set(role, ",".join(after))
        elif members and not after:
            file.remove(role)


class _Malformed(ValueError):
    """Report a file that is not a login configuration."""


def read_login_config(folder: Path, properties: Mapping[str, str], findings: Findings) -> LoginConfig | None:
    """Return the users and the guest login of the file in a folder; None if there is no such file."""
    path = folder / FILE_NAME
    try:
        with findings.reading(path):
            text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        findings.refuse(str(path), f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return None
    domain = _domain(folder, findings)
    if domain is None:
        return None
    try:
        text, _unknown = substitute(text, properties, {})
        modules = _parse(text).get(domain)
    except (_Malformed, CircularProperties) as error:
        findings.refuse(str(path), str(error))
        return None
    if modules is None:
        findings.refuse(str(path), f"has no entry {domain!r}, which bootstrap.xml names")
        return None
    return evolve(_login_of(modules, path, findings), domain=domain, changed=_changed(modules, folder))


def _domain(folder: Path, findings: Findings) -> str | None:
    """Return the entry that bootstrap.xml names; None if that file is there and cannot be read."""
    path = folder / "bootstrap.xml"
    try:
        with findings.reading(path):
            text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return _DOMAIN
    except OSError as error:
        findings.refuse(str(path), f"cannot be read: {error.strerror or error}")
        return None
    found = _JAAS_DOMAIN.search(_COMMENT.sub("", text))
    return _DOMAIN if found is None else found[1]


def _login_of(modules: list[_Module], path: Path, findings: Findings) -> LoginConfig:
    """Combine modules as JAAS does: the first sufficient one that succeeds decides, a required one must succeed."""
    users: dict[str, User] = {}
    guest: GuestLogin | None = None
    needed = {
        module.kind for module in modules if module.flag in _NEEDED and module.kind in (_PROPERTIES, _CERTIFICATES)
    }
    if len(needed) > 1:
        findings.refuse(str(path), f"{_PROPERTIES} and {_CERTIFICATES} are both required; make them sufficient")
    needs_user = False
    for module in modules:
        if module.kind in (_PROPERTIES, _CERTIFICATES) and guest is not None:
            findings.warn(str(path), "a guest login stands before the users, so every client is a guest")
        elif module.kind in (_PROPERTIES, _CERTIFICATES):
            needs_user = needs_user or module.flag in _NEEDED
            read = _users if module.kind == _PROPERTIES else _holders
            for user in read(module, path.parent, findings):
                _add(user, users, path, findings)
        elif module.kind == _GUEST and needs_user:
            findings.warn(str(path), f"the guest login admits nothing: {', '.join(needed)} is required before it")
        elif module.kind == _GUEST:
            guest = _guest(module)
        elif module.flag in _NEEDED:
            findings.refuse(str(path), f"{module.kind} is {module.flag}, and is not there yet: no client could log in")
        else:
            findings.warn(str(path), f"{module.kind} is not there yet: its users cannot log in")
    return LoginConfig(tuple(users.values()), guest, tuple(_reloaded(modules, path.parent)))


def _reloaded(modules: list[_Module], folder: Path) -> Iterator[Path]:
    options = {_PROPERTIES: (_USERS, _ROLES), _CERTIFICATES: (_SUBJECTS, _SUBJECT_ROLES)}
    for module in modules:
        if module.options.get("reload", "").lower() == "true":
            base = folder / module.options.get("baseDir", "")
            for option in options.get(module.kind, ()):
                if module.options.get(option):
                    yield base / module.options[option]


def _changed(modules: list[_Module], folder: Path) -> tuple[Path, Path] | None:
    """Return the files of the first module for users with passwords."""
    for module in modules:
        if module.kind == _PROPERTIES and module.options.get(_USERS) and module.options.get(_ROLES):
            base = folder / module.options.get("baseDir", "")
            return base / module.options[_USERS], base / module.options[_ROLES]
    return None


def _guest(module: _Module) -> GuestLogin:
    return GuestLogin(
        module.options.get(_GUEST_USER) or "guest",
        module.options.get(_GUEST_ROLE) or "guests",
        module.options.get("credentialsInvalidate", "").lower() == "true",
    )


def _add(user: User, users: dict[str, User], path: Path, findings: Findings) -> None:
    """Add a user of one more module. One with a password may have a certificate, too."""
    known = users.setdefault(user.name, user)
    if known is user:
        return
    if known.roles != user.roles:
        findings.warn(str(path), f"user {user.name!r} has other roles in a later module: those of the first one count")
    if known.password is None or known.certificate is None:
        users[user.name] = evolve(
            known, password=known.password or user.password, certificate=known.certificate or user.certificate
        )


def _roles_of(
    module: _Module, option: str, base: Path, names: Mapping[str, str], findings: Findings
) -> dict[str, set[str]]:
    """Return the roles by the name of the user."""
    roles_of: dict[str, set[str]] = {}
    for role, members in _file_of(module, option, base, findings).items():
        for member in members.split(","):
            if member != member.strip() and member.strip() in names:
                place = str(base / module.options[option])
                findings.warn(place, f"role {role!r}: Artemis takes a blank for a part of the name: {member!r}")
            if role.strip():
                roles_of.setdefault(member, set()).add(role)
    return roles_of


def _holders(module: _Module, folder: Path, findings: Findings) -> list[User]:
    """Return the users that log in with a certificate: ``user=SUBJECT`` or ``user=/EXPRESSION/``."""
    base = folder / module.options.get("baseDir", "")
    subjects = _file_of(module, _SUBJECTS, base, findings)
    roles_of = _roles_of(module, _SUBJECT_ROLES, base, subjects, findings)
    found = []
    for name, subject in subjects.items():
        try:
            found.append(User(name, None, roles_of.get(name, ()), subject))
        except ValueError as error:
            findings.refuse(str(base / module.options[_SUBJECTS]), str(error))
    return found


def _users(module: _Module, folder: Path, findings: Findings) -> list[User]:
    base = folder / module.options.get("baseDir", "")
    passwords = _file_of(module, _USERS, base, findings)
    roles_of = _roles_of(module, _ROLES, base, passwords, findings)
    found = []
    for name, password in passwords.items():
        place = str(base / module.options[_USERS])
        if not password:
            # In Artemis this user is admitted without a password.
            findings.warn(place, f"user {name!r} has an empty password, and cannot log in; give it a password")
            continue
        try:
            StoredPassword(password)
            found.append(User(name, password, roles_of.get(name, ())))
        except InvalidHash as error:
            findings.refuse(place, f"the password of user {name!r}: {error}")
        except ValueError as error:
            findings.refuse(place, str(error))
    return found


def _file_of(module: _Module, option: str, base: Path, findings: Findings) -> dict[str, str]:
    name = module.options.get(option)
    if not name:
        findings.refuse(str(base / FILE_NAME), f"{module.kind} has no {option}")
        return {}
    try:
        with findings.reading(base / name):
            return read_properties(base / name)
    except (OSError, ValueError) as error:
        findings.refuse(str(base / name), f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return {}


def _parse(text: str) -> dict[str, list[_Module]]:
    """Return the modules of each entry: ``NAME { CLASS FLAG OPTION=VALUE ...; ... };``."""
    tokens = _tokens(text)
    entries: dict[str, list[_Module]] = {}
    at = 0

    def take(expected: str | None = None) -> str:
        nonlocal at
        if at >= len(tokens):
            raise _Malformed(f"ends too early; expected {expected or 'a name'}")
        found = tokens[at]
        if (expected is not None and found != expected) or (expected is None and found in ("{", "}", ";", "=")):
            raise _Malformed(f"expected {expected or 'a name'}, not {found[:40]!r}")
        at += 1
        return found

    while at < len(tokens):
        name = take()
        take("{")
        modules = entries.setdefault(name, [])
        while at < len(tokens) and tokens[at] != "}":
            kind, flag = take().rpartition(".")[2], take().lower()
            if flag not in _FLAGS:
                raise _Malformed(f"expected one of {', '.join(_FLAGS)}, not {flag[:40]!r}")
            options: dict[str, str] = {}
            while at < len(tokens) and tokens[at] != ";":
                option = take()
                take("=")
                options[option] = take()
            take(";")
            modules.append(_Module(kind, flag, options))
        take("}")
        take(";")
    return entries


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _Malformed(f"cannot be read from {text[at : at + 40]!r} on")
        at = token.end()
        quoted, mark, word = token.groups()
        if quoted is not None:
            # A quoted text is never a mark.
            found.append(re.sub(r"\\(.)", r"\1", quoted))
        elif mark is not None or word is not None:
            found.append(mark or word)
    return found
