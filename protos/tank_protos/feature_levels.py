"""Feature levels: what all processes of a cluster can do, so that old and new ones work together. Pure.

Every process knows the levels of a range, and says so to the controllers. One of them is in force, in the
cluster's state; it only rises, by one at a time, when all processes know the next. What an older process
could not read is written only where the level in force says so: `formats` is the one place that knows.

Something new that older processes can't read gets a level of its own: a row in `_FORMATS`, and a line in
docs/upgrades.md.
"""

from dataclasses import dataclass
from typing import Final

from tank_protos.storage.stretch import PUSH_VERSION, PUSH_WITH_CHECKSUM, PUSH_WITH_PRODUCERS


@dataclass(slots=True, frozen=True)
class Formats:
    """What is written where a level is in force. Each is read by every process that knows the level."""

    snapshot: int
    """`Snapshot.format` of the controllers' state (control.proto)."""
    push: int
    """The client version of what a leader pushes to its followers (docs/protocol/peers.md)."""
    data_folder: int
    """The layout of a broker's data folder (meta.json)."""


@dataclass(slots=True, frozen=True)
class Levels:
    """The levels that a process knows, both ends among them."""

    lowest: int
    highest: int

    def refusal(self, in_force: int) -> str:
        """Why its process can't be one of a cluster where this level is in force, and what to do; empty: it
        can."""
        if self.highest < in_force:
            return (
                f"the cluster works at feature level {in_force}, and this version knows up to level "
                f"{self.highest}: start a version at least as new as the others'"
            )
        if self.lowest > in_force:
            return (
                f"the cluster works at feature level {in_force}, and this version knows from level "
                f"{self.lowest} on: upgrade all processes to a version between the two first"
            )
        return ""


FIRST: Final = 1
"""Of processes that say nothing of levels, and of states that hold none: of before there were levels."""
_FORMATS: Final = {
    FIRST: Formats(snapshot=3, push=PUSH_VERSION, data_folder=1),
    2: Formats(snapshot=4, push=PUSH_WITH_PRODUCERS, data_folder=1),
    3: Formats(snapshot=5, push=PUSH_WITH_CHECKSUM, data_folder=1),
}
FOLDERS_IN_TIME: Final = 3
"""From this level on a broker's registration is judged by the epoch that its data folder knows."""
VALIDATED_BUNDLES: Final = 3
"""From this level on a topic may have the setting `validate.bundles`."""
PRODUCER_BLOCKS: Final = 3
"""From this level on brokers hold blocks of producer ids."""
CLOCKS_COMPARED: Final = 3
"""From this level on a broker whose clock is off is kept from leading where others can."""
ROOM_COMPARED: Final = 3
"""From this level on a broker whose volume has no room is kept from leading where others can."""
OWN: Final = Levels(min(_FORMATS), max(_FORMATS))
"""Those that this version knows."""
PUSH_VERSIONS: Final = frozenset(each.push for each in _FORMATS.values())
"""Those that a follower takes: its leader may have seen the level rise before it, or after."""


def formats(level: int) -> Formats:
    """What is written at this level, which must be one of OWN."""
    return _FORMATS[level]


def said(lowest: int, highest: int) -> Levels:
    """What a process means by two numbers of control.proto; any will do."""
    return Levels(lowest or FIRST, highest or FIRST)
