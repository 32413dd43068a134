"""Problems of a broker's partitions, in a sentence each: logs not opened, failed or damaged, and fsyncs that
hang."""

from collections.abc import Iterator
from itertools import islice

from tank_node.broker.broker import Broker
from tank_node.log.log import LogState, PartitionLog

MAX_PROBLEMS = 20
"""The most problems that are named: one failing disk can affect thousands of partitions."""

_ADVICE = {
    LogState.FAILED: "it takes no writes: check the disk, then restart the broker",
    LogState.DAMAGED: "docs/operations.md says what to do",
}


def partition_problems(broker: Broker) -> list[str]:
    """A sentence for each partition with a problem, up to MAX_PROBLEMS, and one that counts the others."""
    found = _each_problem(broker)
    problems = list(islice(found, MAX_PROBLEMS))
    if more := sum(1 for _ in found):
        problems.append(f"{more} more partitions have problems: tank_partitions in /metrics counts them")
    return problems


def problem_count(broker: Broker) -> int:
    """Number of partitions with a problem."""
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
    """A sentence that an fsync of this log hangs, and what to do; None when none hangs."""
    waited_s = broker.flusher.waited_s(log)
    if waited_s * 1000 < broker.limits.fsync_hangs_ms:
        return None
    return (
        f"its disk has not finished an fsync for {waited_s:.0f} s; "
        "if that lasts, kill -9 the broker, so that other brokers lead, and check the disk"
    )
