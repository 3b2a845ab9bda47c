"""Names of a package that load on first use: the start time of a program depends only on the names that it uses.

Responsible for the module attribute `__getattr__` (PEP 562) of the packages of `embedclient` and `embedbroker`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, names_of: Mapping[str, str], *, extra: str = "") -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: `__name__` of the package.
        names_of: relative module to the names that it defines, separated by spaces. `Name=Inner` exports `Inner` under
            another name; a name equal to that of its module is the module itself.
        extra: the extra of the distribution that the names need, for the error about a library that is missing.
    """
    homes: dict[str, tuple[str, str]] = {}
    for module, names in names_of.items():
        for name in names.split():
            outer, _, inner = name.partition("=")
            homes[outer] = (module, inner or outer)

    def __getattr__(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, inner = homes[name]
        try:
            module = import_module(home, package)
        except ModuleNotFoundError as error:
            if not extra or (error.name or "").startswith("embed"):
                raise
            text = f"{error.name} is missing; install the extra: pip install 'embedbroker[{extra}]'"
            raise ModuleNotFoundError(text, name=error.name) from None
        value: object = module if home.endswith(f".{inner}") else getattr(module, inner)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__
