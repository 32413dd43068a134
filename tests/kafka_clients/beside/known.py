"""Where our answers differ from Kafka's on purpose: by script and question, each with its reason."""

from typing import Final

ONLY_MEMBER: Final = (
    "A group's only member may change its assignor: Kafka wants the group's members to know the new one "
    "before, itself among them."
)
NO_GROUP_LEFT: Final = (
    "A join that is refused leaves no group behind, so that the next one is refused for its member id and "
    "not for its protocols."
)
WRONG_JOIN: Final = (
    "An id that was given to a dynamic member is no static one's: the answer is 25, and Kafka's -1."
)
ASKED_TWICE: Final = (
    "A member's client that asks again over another connection has its first request answered with 27: "
    "Kafka never answers that."
)
ONCE: Final = "A group that is named twice in a request is in the answer once."
REFUSED: Final = (
    "A commit that the group refuses has the group's error for each partition, also for those that do not "
    "exist."
)
NAMED: Final = "A topic without partitions is in the answer to a commit, too."
ASSIGNMENT: Final = "Assignments are shown of stable groups alone: Kafka shows those of before, too."
OPERATIONS: Final = "Groups have no settings: to read and to change them is not among the operations."

_DESCRIBED: Final = "admin.described"
_FOUND: Final = "admin.coordinators"
KNOWN: Final[dict[str, dict[str, str]]] = {
    "joining.refused": dict.fromkeys(
        (f"an id of nobody's, and no kind, v{version} #1" for version in (3, 9)), NO_GROUP_LEFT
    ),
    "joining.alone_with_another_protocol": dict.fromkeys(
        ("joins again with another protocol, v3 #1", "joins again with both, v3 #1"), ONLY_MEMBER
    ),
    "joining.pending_ids": {"joins with it as a static member, v9 #1": WRONG_JOIN},
    "sharing.asks_twice": dict.fromkeys(
        (
            "two joins, other words, v9: waits #2",
            "two joins, other words, v9: waits #3",
            "two syncs, v5: waits #2",
            "two syncs, v5: waits #3",
        ),
        ASKED_TWICE,
    ),
    "static.alone_with_another_protocol": dict.fromkeys(
        ("starts again, v9 #1", "starts again with both, v9 #1"), ONLY_MEMBER
    ),
    "offsets.in_each_version": dict.fromkeys(
        (f"fetches twice the same, v{version} #1" for version in (8, 9)), ONCE
    ),
    "offsets.odd_commits": {
        "no partitions, v9 #1": NAMED,
        "no group, no topic, v9 #1": REFUSED,
    },
    _DESCRIBED: {
        "the empty one, twice, v6 #1": ONCE,
        "one and another, v6 #1": ONCE,
        **{f"preparing, v{version} #1": ASSIGNMENT for version in range(7)},
        "with operations, v6 #1": OPERATIONS,
        "one that isn't there, with operations, v5 #1": OPERATIONS,
    },
    _FOUND: {
        **{f"groups, v{version} #1": ONCE for version in (4, 5, 6)},
        **{f"other keys, v{version} #1": ONCE for version in (4, 5)},
    },
}
