"""The characters that stand for words of an address, and the delimiter between words."""

from __future__ import annotations

from attrs import Attribute, field, frozen

from ._checks import instance

__all__ = ["WildcardConfiguration"]

_ESCAPE = "\\"


def _character(_config: WildcardConfiguration, attribute: Attribute[str], value: object) -> None:
    if not isinstance(value, str) or len(value) != 1:
        raise ValueError(f"{attribute.name} must be one character, not {value!r}")


@frozen
class WildcardConfiguration:
    """Define the grammar of wildcard addresses, of address settings and of security settings.

    Attributes:
        routing_enabled: Whether a queue whose address has wildcards gets messages of the addresses that match.
        delimiter: Character between the words of an address.
        any_words: Character for any number of words, none too.
        single_word: Character for one word.
    """

    routing_enabled: bool = field(default=True, validator=instance(bool))
    delimiter: str = field(default=".", validator=_character)
    any_words: str = field(default="#", validator=_character)
    single_word: str = field(default="*", validator=_character)

    def __attrs_post_init__(self) -> None:
        if len({self.delimiter, self.any_words, self.single_word}) < 3:
            raise ValueError(
                f"delimiter {self.delimiter!r}, any_words {self.any_words!r} and single_word {self.single_word!r} "
                "must be three different characters"
            )

    def is_wild(self, name: str) -> bool:
        """Return True if an address has a wildcard character that no backslash escapes.

        Args:
            name: Name of an address, or a match.
        """
        if self.any_words not in name and self.single_word not in name:
            return False
        before = ""
        for character in name:
            if character in (self.any_words, self.single_word) and before != _ESCAPE:
                return True
            before = character
        return False
