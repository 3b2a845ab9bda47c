"""Operations of ``broker`` on users: in the files of a ``login.config``, or those of the running broker.

Responsible for the names, arguments and results of Artemis, and for one line of the log about each change. Does not
depend on files and hashes: a task of the host changes and reads files, and computes hashes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import evolve

from embedbroker.config import User, UserChange
from embedbroker.kernel import TaskKind, name_in_text

from ._registry import Call, HostCall, Kind, ManagementRefused, Operation, Parameter, UserStore

__all__ = ["USER_OPERATIONS"]

_SALT_BYTES = 32
_SHOWN_MAX = 200
_NAME_MAX = 250


def _store(call: Call) -> UserStore:
    store = call.broker.security
    if store is None:
        raise ManagementRefused("the broker has no users, and is open to every client: start it with users, or a guest")
    return store


def _has_files(call: Call) -> bool:
    return call.kernel.config.user_source is not None


# -- lists -----------------------------------------------------------------------------------------------------------


def _listed(found: object) -> str:
    assert isinstance(found, Mapping)
    rows = [{"username": name, "roles": roles} for name, roles in found.items()]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def _list(call: Call, name: str | None) -> str | HostCall:
    """List one user, or all for an empty name. As in Artemis, an unknown name is a user without roles."""
    store = _store(call)
    if _has_files(call):
        return HostCall(TaskKind.LIST_USERS, name or None, _listed)
    roles = store.roles_by_user
    return _listed({name: roles.get(name, [])} if name else roles)


# -- changes ---------------------------------------------------------------------------------------------------------


def _carry_out(call: Call, change: UserChange, line: str) -> HostCall | None:
    """Change a user, in the files if there are any, and log a line."""
    store, caller, inform = _store(call), call.caller, call.kernel.inform

    def log() -> None:
        inform(f"management: {caller} {line}")

    def finish_files(_answer: object) -> None:
        log()

    def apply(made: UserChange) -> None:
        try:
            store.change_user(made)
        except ValueError as error:
            raise ManagementRefused(str(error)) from None
        log()

    def finish_hash(answer: object) -> None:
        assert isinstance(answer, str)
        apply(evolve(change, password=answer, hashes=False))

    if _has_files(call):
        return HostCall(TaskKind.CHANGE_USERS, change, finish_files)
    if change.hashes and change.password is not None:
        work = store.new_hash(change.password, call.broker.entropy.random_bytes(_SALT_BYTES))
        return HostCall(TaskKind.COMPUTE, work, finish_hash)
    apply(change)
    return None


def _roles_of(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(role.strip() for role in text.split(",") if role.strip()))


def _fault(name: str) -> str | None:
    """Return why no user, and no role, can have a name; None if one can."""
    if "," in name:
        return "a comma separates users in the file of roles; leave it out"
    if not name.isprintable():
        return "it contains a character that cannot be printed; leave it out"
    if name != name.strip():
        return "it begins or ends with a blank; leave it out"
    if len(name) > _NAME_MAX:
        return f"it has {len(name)} characters; use no more than {_NAME_MAX}"
    return None


def _check(name: str | None, password: str | None, roles: tuple[str, ...] | None) -> None:
    """Refuse what no user can have: files with such a user could not be read any more."""
    for kind, each in [("user", name or ""), *[("role", role) for role in roles or ()]]:
        fault = _fault(each)
        if fault is not None:
            raise ManagementRefused(f"{kind} {each[:_SHOWN_MAX]!r}: {fault}")
    if password is not None and any("\ud800" <= char <= "\udfff" for char in password):
        raise ManagementRefused("the password contains half a surrogate, which is no character; leave it out")
    try:
        User(name or "", "x" if password is None else password, roles or ())
    except (TypeError, ValueError) as error:
        raise ManagementRefused(str(error)[:_SHOWN_MAX]) from None


def _add(
    call: Call, name: str | None, password: str | None, roles: str | None, plaintext: bool | None
) -> HostCall | None:
    wanted = _roles_of(roles or "")
    if not wanted:
        raise ManagementRefused("a new user needs roles: names with commas")
    _check(name, password or "", wanted)
    assert name is not None and password is not None, "the check refuses an empty name, and an empty password"
    change = UserChange(name, adds=True, password=password, hashes=not plaintext, roles=wanted)
    return _carry_out(call, change, f"added user {name!r:.200} with the roles {name_in_text(', '.join(wanted))}")


def _reset(
    call: Call, name: str | None, password: str | None, roles: str | None, plaintext: bool | None = True
) -> HostCall | None:
    wanted = None if roles is None else _roles_of(roles)
    if wanted is not None and not wanted:
        raise ManagementRefused("roles must be names with commas; null keeps the present roles")
    _check(name, password, wanted)
    assert name is not None, "the check refuses an empty name"
    change = UserChange(name, password=password, hashes=not plaintext, roles=wanted)
    reset = [
        *(["password"] if password is not None else []),
        *([f"roles to {name_in_text(', '.join(wanted))}"] if wanted else []),
    ]
    return _carry_out(call, change, f"reset {' and '.join(reset) or 'nothing'} of user {name!r:.200}")


def _remove(call: Call, name: str | None) -> HostCall | None:
    change = UserChange(name or "", removes=True)
    return _carry_out(call, change, f"removed user {change.name!r:.200}")


def _clear_logins(call: Call) -> None:
    """Clear the cache of logins. A broker without security has none, which is no error, as in Artemis."""
    if call.broker.security is not None:
        call.broker.security.clear_authentication_cache()


def _clear_grants(call: Call) -> None:
    if call.broker.security is not None:
        call.broker.security.clear_authorization_cache()


_NAME = Parameter("username", Kind.TEXT)
_PASSWORD = Parameter("password", Kind.TEXT)
_ROLES = Parameter("roles", Kind.TEXT)
_PLAIN = Parameter("plaintext", Kind.BOOLEAN)

USER_OPERATIONS = (
    Operation(
        "addUser",
        (_NAME, _PASSWORD, _ROLES, _PLAIN),
        "void",
        _add,
        "Add a user with roles; with plaintext its password is stored plain, else as a hash.",
        changes=True,
    ),
    Operation("listUser", (_NAME,), "String", _list, "Roles of a user, or of all users for an empty name, as JSON."),
    Operation(
        "resetUser",
        (_NAME, _PASSWORD, _ROLES, _PLAIN),
        "void",
        _reset,
        "Set a new password, all roles, or both; null keeps them.",
        changes=True,
    ),
    Operation(
        "resetUser",
        (_NAME, _PASSWORD, _ROLES),
        "void",
        _reset,
        "The same, with a password in plain text.",
        changes=True,
    ),
    Operation("removeUser", (_NAME,), "void", _remove, "Remove a user. Its sessions go on.", changes=True),
    Operation("clearAuthenticationCache", (), "void", _clear_logins, "Check credentials again at each next login."),
    Operation("clearAuthorizationCache", (), "void", _clear_grants, "Check each permission again."),
)
