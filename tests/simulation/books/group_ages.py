"""The ages of members of consumer groups: which version of each request of a group they send."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class GroupAge:
    """What one member sends."""

    name: str
    """The broker that was the newest then."""
    find: int
    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int

    @property
    def knows_instances(self) -> bool:
        """Whether it can be a static member."""
        return self.join >= 5

    @property
    def is_given_id(self) -> bool:
        """Whether it hears its member id before it is a member."""
        return self.join >= 4


GROUP_AGES = (
    GroupAge("0.9", 0, 0, 0, 0, 0, 2, 1),
    GroupAge("0.10", 0, 1, 0, 0, 0, 2, 1),
    GroupAge("1.1", 1, 2, 1, 1, 1, 3, 3),
    GroupAge("2.1", 2, 3, 2, 2, 2, 6, 5),
    GroupAge("2.2", 2, 4, 2, 2, 2, 6, 5),
    GroupAge("2.3", 2, 5, 3, 3, 3, 7, 5),
    GroupAge("2.8", 3, 7, 5, 4, 4, 8, 7),
    GroupAge("3.1", 4, 7, 5, 4, 4, 8, 8),
    GroupAge("4.1", 6, 9, 5, 4, 5, 9, 9),
)
NEWEST_MEMBER = GROUP_AGES[-1]
STATIC = tuple(age for age in GROUP_AGES if age.knows_instances)
"""Those of static members."""
