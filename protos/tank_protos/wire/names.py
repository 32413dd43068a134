"""The rules for names of topics and consumer groups, and limits on topics and producers."""

import re

MAX_TOPIC_NAME_BYTES = 249
"""Kafka's own bound."""
MAX_GROUP_NAME_BYTES = 255
MAX_PRODUCER_NAME_BYTES = 255
MAX_PARTITIONS_OF_A_TOPIC = 65_530
"""TANK's own bound."""
MAX_BLOCK_IDS = 1 << 20
"""The most producer ids in one block: more than a Spark job has tasks. Controllers compute a block's first id
with it, so it must never become smaller, or ids would be given out twice."""

GROUPS_TOPIC = "__consumer_offsets"
"""The topic in which the coordinators of consumer groups keep these."""
INTERNAL_TOPICS = frozenset((GROUPS_TOPIC, "__transaction_state"))
"""The topics in which a cluster keeps its own records, by Kafka's names. Clients may read them, but neither
create nor write them."""

IGGY_GROUP_PREFIX = "iggy:g:"
IGGY_CONSUMER_PREFIX = "iggy:c:"
"""What the names of groups begin with under which the positions of Iggy's groups and consumers are kept, from
Iggy's feature level on."""

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_FIRST_TOPIC_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters. `str.isprintable` differs between versions of Python, and a controller that replays its
log under another version must accept the same names."""
_NOT_UTF_8 = re.compile("[\ud800-\udfff]")
_LETTER_OR_DIGIT = re.compile(r"[A-Za-z0-9]")


def topic_name_problem(name: str) -> str | None:
    """The rule that a topic's name breaks, as an error message; None: the name is valid. The rule is
    Kafka's."""
    if _TOPIC_NAME.fullmatch(name) and name not in (".", ".."):
        return None
    return "a topic's name has 1 to 249 of the characters A-Z a-z 0-9 . _ -, and is neither . nor .."


def first_topic_name_problem(name: str) -> str | None:
    """As `topic_name_problem`, by the rule that holds before feature level `feature_levels.KAFKA`. Every name
    that it allows is valid afterwards, too."""
    if _FIRST_TOPIC_NAME.fullmatch(name) and _LETTER_OR_DIGIT.search(name):
        return None
    return "a topic's name has 1 to 64 of the characters A-Z a-z 0-9 - _, one a letter or a digit at least"


def group_name_problem(name: str) -> str | None:
    """The rule that a consumer group's name breaks, as an error message; None: the name is valid."""
    if not _NOT_TEXT.search(name) and 1 <= len(name.encode()) <= MAX_GROUP_NAME_BYTES:
        return None
    return f"a group's name has 1 to {MAX_GROUP_NAME_BYTES} bytes of text without control characters"


def readable(text: str) -> str:
    """The text with U+FFFD in place of each byte that is not UTF-8, which decoders keep as a lone surrogate.
    Several texts may become the same."""
    return _NOT_UTF_8.sub("\ufffd", text)


def is_iggys_group(name: str) -> bool:
    """Whether a group's name is kept for Iggy's groups and consumers."""
    return name.startswith((IGGY_GROUP_PREFIX, IGGY_CONSUMER_PREFIX))
