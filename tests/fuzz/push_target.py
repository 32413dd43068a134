"""A leader's connection to a follower whose pushes are odd: fields at their ends, bytes changed, halves.

All versions of a push that a follower takes. Most of those that are changed have the right checksum of their
head, so that they get past it: the follower judges them as a leader's word. Then only a WireError is raised,
and whatever the log has then is what the leader wrote.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from tank_node.limits import BELIEF_MS
from tank_node.log.log import LogState
from tank_protos.feature_levels import PUSH_VERSIONS
from tank_protos.generated.tank import PushAnswer
from tank_protos.storage.stretch import Stretch
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import frame
from tests.fuzz import mutate
from tests.fuzz.session_ledger import stored_batches
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.leader_line import Line, following, opened, push_of
from tests.support.nodes.replicas import stretch_of
from tests.support.storage.fault_disk import FaultDisk
from tests.support.storage.logs import Folder, append

FRAMES: Final = 24
_TOPIC_ID: Final = 10
_EPOCH: Final = 5
_BATCHES: Final = 12
_GOOD_SHARE: Final = 0.3
"""So that the log grows, and what comes next can be cut off it."""
_NUMBERS: Final = (0, 1, 4, 5, 6, 2**31, 2**32 - 1)
_LONG_NUMBERS: Final = (*_NUMBERS, 2**32, 2**63, 2**64 - 1)
_HEADS: Final[tuple[tuple[tuple[int, ...], Callable[[Stretch, int], Stretch]], ...]] = (
    (_LONG_NUMBERS, lambda stretch, number: stretch._replace(topic_id=number)),
    (_NUMBERS, lambda stretch, number: stretch._replace(leader_epoch=number)),
    (_NUMBERS, lambda stretch, number: stretch._replace(previous_epoch=number)),
    (_LONG_NUMBERS, lambda stretch, number: stretch._replace(high_water_mark=number)),
    (_LONG_NUMBERS, lambda stretch, number: stretch._replace(log_start=number)),
)
"""What a head says: the numbers to try, and how it says one."""


@cache
def _leader() -> Folder:
    """The log of the leader: three epochs, some batches of idempotent producers."""
    folder = Folder()
    for number in range(_BATCHES):
        producer = (70 + number % 2, 0, number // 2) if number % 3 else (0, 0, 0)
        append(folder.log(), b"value-%d" % number, epoch=3 + number // 5, producer=producer)
    return folder


@cache
def _batches() -> frozenset[bytes]:
    """All that it holds."""
    log = _leader().log()
    whole = bytes(stretch_of(log, 1).batches)
    found, at = set(), 0
    for record in (each for segment in log.segments for each in segment.index.records()):
        found.add(whole[at : at + record.length])
        at += record.length
    return frozenset(found)


def conversation(chance: Random) -> Counter[str]:
    """FRAMES pushes to a follower, some as they should be; a connection that was refused is made anew."""
    refused: Counter[str] = Counter()
    with following(Path("/data"), FaultDisk()) as node:
        node.controller.connected = True
        line = opened(node)
        for turn in range(FRAMES):
            payload = _push(chance, turn + 1, node)
            try:
                line.feed(b"".join(frame(5, [payload])))
            except WireError as error:
                refused[error.reason] += 1
                line.session.close()
                line = opened(node)
            node.sync()
            if not _check(node):
                refused["diverged"] += 1
                line.session.close()
                return refused
            if chance.random() < 0.2:
                _pass_ms(node, chance.choice((10, 1500)))
        _end_well(node, line)
    return refused


def _push(chance: Random, request_id: int, node: BenchNode) -> bytes:
    """The payload of one."""
    version = chance.choice(sorted(PUSH_VERSIONS))
    end = node.broker.topics["a"].partitions[0].log.last
    start = chance.choice((end + 1, end + 1, chance.randrange(1, _BATCHES + 2)))
    start, stretch = _stretch(start, chance.choice((1, 100, 1 << 20)))
    if chance.random() < 0.3:
        stretch = stretch._replace(producers=chance.randbytes(chance.choice((1, 40))))
    roll = chance.random()
    number = 0
    if roll > _GOOD_SHARE:
        start, number, stretch = _changed(chance, start, stretch)
    message = push_of(request_id, (start, stretch), version=version, number=number)
    payload = b"".join(message.encode())
    if roll > 0.9:
        return mutate.payload(chance, payload, bytes(stretch.batches))
    return payload


def _stretch(start: int, most_bytes: int) -> tuple[int, Stretch]:
    """As the leader would push it."""
    log = _leader().log()
    pushed = stretch_of(log, start, most_bytes, _EPOCH)
    mark = log.written
    return start, Stretch(_TOPIC_ID, _EPOCH, pushed.previous_epoch, mark, 1, pushed.records, pushed.batches)


def _changed(chance: Random, start: int, stretch: Stretch) -> tuple[int, int, Stretch]:
    """Where it begins, the partition's number, and the stretch: one or two of them are not as they were."""
    number = 0
    for _ in range(chance.choice((1, 1, 2))):
        roll = chance.random()
        if roll < 0.5:
            numbers, say = chance.choice(_HEADS)
            stretch = say(stretch, chance.choice(numbers))
        elif roll < 0.6:
            start = chance.choice(_LONG_NUMBERS)
        elif roll < 0.65:
            number = chance.choice((1, 0xFFFF))
        elif roll < 0.85:
            batches = mutate.payload(chance, bytes(stretch.batches), bytes(stretch.records))
            stretch = stretch._replace(batches=batches if stretch.records else b"")
        else:
            records = bytearray(stretch.records)
            if records:
                records[chance.randrange(len(records))] ^= 1 << chance.randrange(8)
            stretch = stretch._replace(records=bytes(records))
    return start, number, stretch


def _check(node: BenchNode) -> bool:
    """What the follower has is what the leader wrote, and its mark lies within. Whether it takes more: where
    a push says that the leader has another batch below the mark, it must not, and cuts nothing."""
    partition = node.broker.topics["a"].partitions[0]
    log = partition.log
    strange = [batch for batch in stored_batches(partition) if batch not in _batches()]
    assert not strange, f"{len(strange)} batches are stored that no leader wrote"
    assert partition.high_water_mark <= log.last or not log.last
    if log.state is LogState.ACTIVE:
        return True
    assert "both must be the same up to the high-water mark" in log.reason, f"{log.state}: {log.reason}"
    return False


def _pass_ms(node: BenchNode, ms: int) -> None:
    """Time passes; an epoch that no view has is believed for a while only."""
    node.pass_ms(ms)
    node.broker.followers.beliefs.tick(node.broker.tick.monotonic_ms)


def _end_well(node: BenchNode, line: Line) -> None:
    """A leader that pushes as it should is understood after all that, and brings the log up; not one that was
    told to begin behind the leader's end."""
    log = node.broker.topics["a"].partitions[0].log
    _pass_ms(node, 2 * BELIEF_MS)
    if not line.closed:
        line.session.close()
    line = opened(node)
    start = log.last + 1
    for request_id in range(1, 6):
        start, stretch = _stretch(start, 1 << 20)
        [answer] = line.send(push_of(request_id, (start, stretch)))
        node.sync()
        assert isinstance(answer, PushAnswer)
        if log.last >= _BATCHES:
            return
        start = 1 if answer.partitions[0].error else log.last + 1
    raise AssertionError(f"the log ends at {log.last}: {answer}")
