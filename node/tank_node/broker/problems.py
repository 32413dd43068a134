"""Partitions of a broker that can't be used as they should, a sentence each."""

from collections.abc import Iterator
from itertools import islice

from tank_node.broker.broker import Broker
from tank_node.log.log import LogState, PartitionLog

MAX_PROBLEMS = 20
"""One failing disk takes thousands of partitions with it: the first ones tell which."""

_ADVICE = {
    LogState.FAILED: "it takes no writes: check the disk, then restart the broker",
    LogState.DAMAGED: "docs/operations.md says what to do",
}


def partition_problems(broker: Broker) -> list[str]:
    """A sentence for each partition that can't be used as it should, and one for those too many to name."""
    found = _each_problem(broker)
    problems = list(islice(found, MAX_PROBLEMS))
    if more := sum(1 for _ in found):
        problems.append(f"{more} more partitions have problems: tank_partitions in /metrics counts them")
    return problems


def problem_count(broker: Broker) -> int:
    """How many partitions can't be used as they should."""
    return sum(1 for _ in _each_problem(broker))


def _each_problem(broker: Broker) -> Iterator[str]:
    for topic in broker.topics.values():
        for number, reason in topic.broken.items():
            yield f"partition {topic.name}/{number} could not be opened: {reason}"
        for partition in topic.partitions.values():
            log = partition.log
            if log.state is not LogState.ACTIVE:
                name = f"partition {topic.name}/{partition.number}"
                yield f"{name} is {log.state.value}: {log.reason}; {_ADVICE.get(log.state, '')}"
            elif (waits := waiting_for_disk(broker, log)) is not None:
                yield f"partition {topic.name}/{partition.number} acknowledges nothing: {waits}"


def waiting_for_disk(broker: Broker, log: PartitionLog) -> str | None:
    """That an fsync of this log hangs, and what to do; None when none does."""
    waited_s = broker.flusher.waited_s(log)
    if waited_s * 1000 < broker.limits.fsync_hangs_ms:
        return None
    return (
        f"its disk has not finished an fsync for {waited_s:.0f} s; "
        "when it stays so, kill -9 the broker, so that others lead, and look at the disk"
    )
