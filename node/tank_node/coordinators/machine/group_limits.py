"""The bounds of groups, each with its reason. Sizes are bytes, times are milliseconds."""

from dataclasses import dataclass
from typing import Final

KIB = 1024
MIB = 1024 * KIB
LEAST_REBALANCE_MS: Final = 10
"""The shortest wait for members to join again, also where all of them say less: a group that waits for a
static member who is away begins its wait anew each time.
"""


@dataclass(slots=True, frozen=True)
class GroupLimits:
    """What a broker holds of groups at most, however many clients ask for more."""

    groups: int = 100_000
    """The most groups that one broker coordinates. Each takes some 2 KB with one member."""

    members: int = 2_000
    """The most members of a group, and as many that have an id and have not joined with it; each has one join
    and one sync at most that wait. What they all say is one answer to their leader, and one record."""

    member_bytes: int = 4 * MIB
    """The most bytes of what one member says in all its protocols together. Kafka Streams sends 1 MB and
    more."""

    group_bytes: int = 16 * MIB
    """The most bytes of what all members say together: held in memory, and sent to the leader at once."""

    name_bytes: int = 32_767
    """The longest name of a group: what its records hold."""

    member_text_characters: int = 1_000
    """The longest id, rack, topic or pattern of topics that a member of the consumer protocol may name:
    clients make ids of 22 characters, and each stands in three records."""

    rebalance_ms: int = 2**31 - 1
    """The longest time that a member may give itself to give partitions up: what its record holds."""

    new_member_ms: int = 300_000
    """How long a new member may wait for its group before it counts as gone. It can't send heartbeats, for
    it has no member id yet; its client asks again when the answer takes too long."""

    offsets: int = 2_000_000
    """The most committed offsets that one broker holds; each takes some 300 bytes."""

    iggy_consumers: int = 1_000
    """The most of Iggy's consumers with positions in one partition of the internal topic. Each is a group,
    any name makes one, and none expires: they take half of `groups` at most, all of them at a broker that
    coordinates fifty partitions."""

    iggy_positions: int = 20_000
    """The most positions of these consumers in one partition of the internal topic: so they take half of
    `offsets` at most. One consumer of a topic has up to 1,000."""

    held_bytes: int = 1024 * MIB
    """The most bytes of all groups, members and offsets together, as one broker counts them. Offsets with
    notes of 4 KiB, or members that say much, take many times what their number alone bounds: two million
    offsets with such notes are 8 GB, and 600 MB without. A broker that takes over groups reads them in any
    case."""
