"""What users of XA branches do beyond start, end, prepare and commit, and how often.

The habits come from a separate random stream, so that everything else a seed means stays the same. It runs nothing.
"""

from __future__ import annotations

from random import Random

from attrs import frozen

__all__ = ["PLAIN", "BranchHabits", "draw_habits"]


@frozen
class BranchHabits:
    """Chances are per branch, ``hesitation_s`` is the longest time between the two phases.

    A user that joins has a second session work in the branch, and one that suspends leaves it for a while. A user that
    dawdles takes longer than the branch may last.
    """

    join_chance: float = 0.0
    suspend_chance: float = 0.0
    one_phase_chance: float = 0.0
    dawdle_chance: float = 0.0
    hesitation_s: float = 0.0


#: Nothing of it.
PLAIN = BranchHabits()


def draw_habits(random: Random) -> BranchHabits:
    """Those of one user."""
    return BranchHabits(
        join_chance=random.choice((0.0, 0.2, 0.5)),
        suspend_chance=random.choice((0.0, 0.1, 0.3)),
        one_phase_chance=random.choice((0.0, 0.1, 0.3)),
        dawdle_chance=random.choice((0.0, 0.03, 0.1)),
        hesitation_s=random.choice((0.0, 0.02, 0.2)),
    )
