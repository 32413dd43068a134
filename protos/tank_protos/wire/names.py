"""Which names topics and consumer groups may have, the same everywhere."""

import re

MAX_TOPIC_NAME_BYTES = 64
MAX_GROUP_NAME_BYTES = 255
MAX_PRODUCER_NAME_BYTES = 255
MAX_PARTITIONS_OF_A_TOPIC = 65_530
"""TANK's own bound."""
MAX_BLOCK_IDS = 1 << 20
"""Producer ids that are given at once: more than a Spark job has tasks. There are 2^43 such blocks.
Controllers number blocks by it: a smaller one would give ids a second time."""

_TOPIC_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Not `str.isprintable`: what is printable differs between versions of Python, and a controller that replays
its log under another one must judge names as before."""
_LETTER_OR_DIGIT = re.compile(r"[A-Za-z0-9]")


def topic_name_problem(name: str) -> str | None:
    """What is wrong with a topic's name and what to do, in one sentence; None when it is good."""
    if _TOPIC_NAME.fullmatch(name) and _LETTER_OR_DIGIT.search(name):
        return None
    return "a topic's name has 1 to 64 of the characters A-Z a-z 0-9 - _, one a letter or a digit at least"


def group_name_problem(name: str) -> str | None:
    """What is wrong with a consumer group's name; None when it is good."""
    if not _NOT_TEXT.search(name) and 1 <= len(name.encode()) <= MAX_GROUP_NAME_BYTES:
        return None
    return f"a group's name has 1 to {MAX_GROUP_NAME_BYTES} bytes of text without control characters"
