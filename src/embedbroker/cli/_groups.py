"""Groups of commands: a name that does not exist is refused with the name that is closest.

Does not depend on which commands a group has.
"""

from __future__ import annotations

from difflib import get_close_matches

import click

__all__ = ["CommandGroup"]


class CommandGroup(click.Group):
    """Refuse an unknown command with the closest name, or with all names of a group that has none like it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not args or args[0].startswith("-"):
                raise
            # The library's own hint depends on its version.
            names = self.list_commands(ctx)
            close = get_close_matches(args[0], names, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(names)}."
            raise click.UsageError(f"{error.message} {hint}", ctx) from None
