"""The index of addresses with wildcards: which of them match a name.

Responsible for the meaning of the two wildcard words. Does not depend on what is bound to an address.

It is a tree of words: the cost of a search depends on the words of the name and on the patterns that agree with its
beginning, not on the number of patterns.
"""

from __future__ import annotations

from embedbroker.config import WildcardConfiguration

__all__ = ["WildcardIndex"]


class _Node:
    """Hold the patterns that agree up to one word. ``repeats`` is True behind the word for any number of words."""

    __slots__ = ("children", "pattern", "repeats")

    def __init__(self, *, repeats: bool) -> None:
        self.children: dict[str, _Node] = {}
        self.pattern: str | None = None
        self.repeats = repeats


class WildcardIndex:
    """Hold patterns, and find those that match a name."""

    __slots__ = ("_count", "_root", "_wildcards")

    def __init__(self, wildcards: WildcardConfiguration) -> None:
        self._wildcards = wildcards
        self._root = _Node(repeats=False)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, pattern: str) -> None:
        """Add a pattern. Ignored for one that is here."""
        node = self._root
        for word in pattern.split(self._wildcards.delimiter):
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node(repeats=word == self._wildcards.any_words)
            node = child
        if node.pattern is None:
            node.pattern = pattern
            self._count += 1

    def remove(self, pattern: str) -> None:
        """Remove a pattern, and the words that no other one has. Ignored for one that is not here."""
        path: list[tuple[_Node, str]] = []
        node = self._root
        for word in pattern.split(self._wildcards.delimiter):
            child = node.children.get(word)
            if child is None:
                return
            path.append((node, word))
            node = child
        if node.pattern is None:
            return
        node.pattern = None
        self._count -= 1
        for parent, word in reversed(path):
            child = parent.children[word]
            if child.children or child.pattern is not None:
                break
            del parent.children[word]

    def matching(self, name: str) -> list[str]:
        """Return the patterns that match a name without wildcards, each once, in a fixed order."""
        words = name.split(self._wildcards.delimiter)
        any_words, single_word = self._wildcards.any_words, self._wildcards.single_word
        found: dict[str, None] = {}
        # Each pair of a node and a number of words is visited once: patterns with many wildcards stay cheap.
        visited: set[tuple[_Node, int]] = set()
        waiting = [(self._root, 0)]
        while waiting:
            place = waiting.pop()
            if place in visited:
                continue
            visited.add(place)
            node, used = place
            behind_any = node.children.get(any_words)
            if behind_any is not None:
                waiting.append((behind_any, used))
            if used == len(words):
                if node.pattern is not None:
                    found[node.pattern] = None
                continue
            if node.repeats:
                waiting.append((node, used + 1))
            word = words[used]
            for child in (node.children.get(single_word), node.children.get(word) if word != single_word else None):
                # The word for any number of words is no word of a name.
                if child is not None and not child.repeats:
                    waiting.append((child, used + 1))
        return list(found)
