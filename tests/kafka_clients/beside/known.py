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
AT_ONCE: Final = "The topics of a pattern are in the first answer: Kafka looks for them a moment later."
OLD_COMMIT: Final = (
    "A member's commit of a version that can't be told of a stale epoch is taken in its present epoch: Kafka "
    "refuses the version."
)
UNNAMED: Final = (
    "Fetches without a member's id are not a member's: Kafka wants the id to be null, and not empty."
)
RISES: Final = (
    "Generations and epochs only rise, also where an empty group changes its protocol: Kafka begins again "
    "at 1."
)
OTHER_KIND: Final = (
    "A member that was of a group before the group became another kind is unknown there: Kafka says that "
    "there is no such group."
)
CHOICE: Final = (
    "Which of a member's partitions another one gets is not laid down: both take as many, and move none "
    "that need not move."
)
GIVEN_ID: Final = (
    "An id that the coordinator gives begins with the client's name in groups of both protocols: Kafka's "
    "doesn't in those of the consumer protocol."
)

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
    "consumer.by_an_expression": {"one: joins, v1 #1": AT_ONCE},
    "consumer.positions": {"one commits, v8 #1": OLD_COMMIT, "no member fetches, v9 #1": UNNAMED},
    "consumer.asked_as_classic": {"a worker joins, v3 #1": RISES, "one: lives, v1 #1": OTHER_KIND},
    "migration.from_classic": dict.fromkeys(
        ("two: joins, v1 #1", "both kinds: described, v1 #1", "one syncs, v5 #2"), CHOICE
    ),
    "migration.back_to_classic": {
        **dict.fromkeys(
            (
                "one asks for an id, v9 #1",
                "one joins, v9 #1",
                "both kinds: described, v1 #1",
                "one joins, v9 #2",
            ),
            GIVEN_ID,
        ),
        "classic: described as classic, v6 #1": ASSIGNMENT,
    },
    "migration.an_empty_group": {"one joins, v9 #1": RISES},
}
