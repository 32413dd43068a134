"""Feature levels: the formats that all processes of a cluster support, so that old and new versions work
together. Pure.

Every process knows a range of levels, and sends it to the controllers. One level is in force, in the
cluster's state; it only rises, by one at a time, when all processes know the next. A format that older
processes can't read is written only from a certain level on: `formats` has the table.

A new format that older processes can't read gets a level of its own: a row in `FORMATS`, and a line in
docs/upgrades.md. Tests add a row for a level that no version knows yet
(`tests.support.processes.next_level`).
"""

from dataclasses import dataclass
from typing import Final

from tank_protos.storage.stretch import PUSH_VERSION


@dataclass(slots=True, frozen=True)
class Formats:
    """The formats that are written while a level is in force. Every process that knows the level can read
    them.
    """

    snapshot: int
    """`Snapshot.format` of the controllers' state (control.proto)."""
    push: int
    """The client version of what a leader pushes to its followers (docs/protocol/peers.md)."""
    data_folder: int
    """The layout of a broker's data folder (meta.json)."""


@dataclass(slots=True, frozen=True)
class Levels:
    """The levels that a process knows, both ends included."""

    lowest: int
    highest: int

    def refusal(self, in_force: int) -> str:
        """Why a process with these levels can't join a cluster where this level is in force, and what to do;
        empty: it can.
        """
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
"""The level at which a cluster begins."""
KAFKA: Final = 2
"""The level from which on topics may be stored as Kafka's record batches, may have names by Kafka's rule, and
may have the settings that came with these.
"""
GROUPS: Final = 3
"""The level from which on brokers keep consumer groups in a topic of their own. Controllers that don't know
this level refuse to create that topic.
"""
NATIVE_GROUPS: Final = 4
"""The level from which on the positions of TANK's own clients are in that topic, too, and so are the records
of groups whose broker assigns the partitions (KIP-848); brokers pass on requests about groups to each other.
The controllers take no more positions.
"""
IGGY: Final = 5
"""The level from which on the controllers keep the names of Iggy's clients: streams, their topics and groups.
"""
FORMATS: Final = {
    FIRST: Formats(snapshot=1, push=PUSH_VERSION, data_folder=1),
    KAFKA: Formats(snapshot=2, push=PUSH_VERSION, data_folder=2),
    GROUPS: Formats(snapshot=2, push=PUSH_VERSION, data_folder=2),
    NATIVE_GROUPS: Formats(snapshot=2, push=PUSH_VERSION, data_folder=2),
    IGGY: Formats(snapshot=3, push=PUSH_VERSION, data_folder=2),
}
"""By level."""
OWN: Final = Levels(FIRST, IGGY)
"""The levels that this version's processes say that they know."""
PUSH_VERSIONS: Final = {each.push for each in FORMATS.values()}
"""The versions of a push that a follower takes: its leader may have learned of a new level earlier or
later.
"""


def formats(level: int) -> Formats:
    """The formats that are written at this level. Raises KeyError for a level that this version doesn't
    know."""
    return FORMATS[level]
