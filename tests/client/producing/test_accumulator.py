"""What a producer holds, without network: order, sequences, retries, memory."""

import itertools
import random as randomness

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_client import errors
from tank_client.model import ProducerIdentity
from tank_client.producing.accumulator import Accumulator, InputColumns, TopicQueues
from tank_client.producing.partition_queue import SEQUENCE_MODULUS, PartitionQueue, PendingBundle
from tank_client.sync.producer import BundleDelivery

LOST = errors.ConnectionLost("cut")
REFUSED = errors.MessageTooLarge("too large")
IDENTITY = ProducerIdentity(7, 0)


def new_accumulator(
    *, batch_bytes: int = 10, max_in_flight: int = 5, partitions: int = 4, idempotent: bool = True
) -> Accumulator:
    made = Accumulator(
        batch_bytes=batch_bytes,
        max_in_flight=max_in_flight,
        new_delivery=BundleDelivery,
        key_hash=lambda key: key[0],
        random=randomness.Random(1).random,
        now_ms=itertools.count().__next__,
    )
    made.set_idempotent(idempotent)
    made.topics["t"] = TopicQueues(partitions, 0.0)
    return made


def filled(count: int, *, idempotent: bool = True) -> tuple[Accumulator, PartitionQueue]:
    """A queue with that many sealed bundles of one message each."""
    accumulator = new_accumulator(batch_bytes=1, idempotent=idempotent)
    queue = accumulator.place("t", None, 0)
    for number in range(count):
        accumulator.add("t", b"%d" % number, None, 0, 0)
    queue.identity = IDENTITY if idempotent else None
    return accumulator, queue


def send_all(queue: PartitionQueue) -> list[PendingBundle]:
    sent = []
    while (bundle := queue.next_to_send(0.0)) is not None:
        sent.append(bundle)
    return sent


def test_bundles_fill_up_to_the_size_and_share_one_future() -> None:
    accumulator = new_accumulator()
    queue = accumulator.place("t", None, 2)
    bundles = [accumulator.add("t", b"12345", None, 2, 0) for _ in range(4)]
    assert bundles[0] is bundles[1] is not bundles[2]
    assert [bundle.messages for bundle in queue.sealed] == [2, 2]
    assert queue.open is None


def test_messages_with_a_key_stay_together_and_those_without_stick() -> None:
    accumulator = new_accumulator(batch_bytes=100)
    assert [accumulator.place("t", bytes([key]), None).partition for key in (4, 5, 9)] == [0, 1, 1]
    queue = accumulator.place("t", None, None)
    assert accumulator.place("t", b"", None) is accumulator.place("t", None, None) is queue
    drawn = set()
    for _ in range(40):
        queue = accumulator.place("t", None, None)
        accumulator.add("t", b"x" * 100, None, queue.partition, 0)
        drawn.add(queue.partition)
    assert drawn == {0, 1, 2, 3}


def test_keys_appear_in_the_middle_of_a_bundle() -> None:
    accumulator = new_accumulator(batch_bytes=1000)
    queue = accumulator.place("t", None, 0)
    for key in (None, b"k", None):
        bundle = accumulator.add("t", b"v", key, 0, 0)
    accumulator.extend(queue, InputColumns([b"a", b"b"], None, [0, 0]), 0, 1000)
    accumulator.extend(queue, InputColumns([b"c"], [b"z"], [0]), 0, 1000)
    assert bundle.keys == [None, b"k", None, None, None, b"z"]
    with pytest.raises(errors.InvalidArgument, match="'t'"):
        accumulator.add("t", b"v", b"x" * 256, 0, 0)
    assert bundle.messages == len(bundle.values) == 6


def test_unknown_partitions_and_counts_are_said() -> None:
    accumulator = new_accumulator()
    with pytest.raises(errors.UnknownPartition):
        accumulator.place("t", None, 4)
    accumulator.topics["old"] = TopicQueues(None, 0.0)
    with pytest.raises(errors.FeatureMissing, match="partition"):
        accumulator.place("old", b"k", None)
    assert accumulator.place("old", None, 17).partition == 17


def test_memory_is_counted_and_freed() -> None:
    accumulator, queue = filled(3)
    held = accumulator.held_bytes
    assert held >= 3
    for bundle in send_all(queue):
        queue.acknowledged(bundle)
        accumulator.release(bundle)
    assert accumulator.held_bytes == 0
    assert not accumulator.unfinished
    accumulator.tidy()
    assert not accumulator.active


def test_at_most_five_fly_and_one_without_idempotence() -> None:
    _, queue = filled(8)
    assert [bundle.sequence for bundle in send_all(queue)] == [0, 1, 2, 3, 4]
    _, queue = filled(8, idempotent=False)
    assert [bundle.sequence for bundle in send_all(queue)] == [-1]


def test_nothing_leaves_without_a_producer_id() -> None:
    _, queue = filled(2)
    queue.identity = None
    assert queue.needs_identity
    assert send_all(queue) == []


def test_sequences_wrap_where_kafkas_do() -> None:
    _, queue = filled(3)
    queue.next_sequence = SEQUENCE_MODULUS - 2
    assert [bundle.sequence for bundle in send_all(queue)] == [SEQUENCE_MODULUS - 2, SEQUENCE_MODULUS - 1, 0]


def test_after_a_lost_connection_all_go_again_in_order_with_their_sequences() -> None:
    _, queue = filled(8)
    sent = send_all(queue)
    for bundle in (sent[2], sent[0], sent[4], sent[1]):
        bundle.maybe_stored = True
        assert queue.failed(bundle, LOST, retry=True, retry_at_ms=5.0) == []
        assert send_all(queue) == [], "not before all in flight are back"
    sent[3].maybe_stored = True
    queue.failed(sent[3], LOST, retry=True, retry_at_ms=9.0)
    assert queue.failures == 1, "one connection, one failure"
    assert queue.next_to_send(4.9) is None
    again = [queue.next_to_send(5.0) for _ in range(5)]
    assert again == sent
    assert [bundle.sequence for bundle in again if bundle] == [0, 1, 2, 3, 4]


def test_behind_a_bundle_that_surely_is_not_stored_the_rest_is_numbered_anew() -> None:
    _, queue = filled(6)
    sent = send_all(queue)
    queue.acknowledged(sent[0])
    given_up = queue.failed(sent[1], REFUSED, retry=False, retry_at_ms=0.0)
    assert given_up == [sent[1]]
    for bundle in sent[2:]:
        assert queue.failed(bundle, LOST, retry=True, retry_at_ms=0.0) == []
    assert [(bundle.values, bundle.sequence) for bundle in send_all(queue)] == [
        ([b"2"], 1),
        ([b"3"], 2),
        ([b"4"], 3),
        ([b"5"], 4),
    ]
    assert queue.identity == IDENTITY


def test_behind_one_that_may_be_stored_what_was_sent_falls_with_it() -> None:
    _, queue = filled(7)
    sent = send_all(queue)
    for bundle in sent:
        bundle.maybe_stored = True
    assert queue.failed(sent[0], LOST, retry=False, retry_at_ms=0.0) == [sent[0]]
    fallen: list[PendingBundle] = []
    for bundle in sent[1:]:
        fallen += queue.failed(bundle, LOST, retry=True, retry_at_ms=0.0)
    assert fallen == sent[1:]
    assert queue.needs_identity
    assert queue.retired_producer == 7
    queue.identity = ProducerIdentity(8, 0)
    assert [(bundle.values, bundle.sequence) for bundle in send_all(queue)] == [([b"5"], 0), ([b"6"], 1)]


def test_what_waits_too_long_is_given_up_and_the_rest_goes_on() -> None:
    _, queue = filled(4)
    late = queue.expire(1.0)
    assert [bundle.values for bundle in late] == [[b"0"], [b"1"]]
    assert [(bundle.values, bundle.sequence) for bundle in send_all(queue)] == [([b"2"], 0), ([b"3"], 1)]


@given(st.data())
def test_whatever_fails_the_broker_sees_every_bundle_once_and_in_order(data: st.DataObject) -> None:
    """A broker that stores by sequence, a network that loses requests and answers: nothing is lost,
    repeated, reordered."""
    count = data.draw(st.integers(1, 12))
    accumulator, queue = filled(count)
    stored: list[bytes | None] = []
    flying: list[PendingBundle] = []
    acknowledged = 0
    losses = 0
    while acknowledged < count:
        flying += send_all(queue)
        assert len(flying) <= 5
        # The connection keeps the order; a cut takes everything behind it too.
        lost_at = data.draw(st.integers(0, len(flying))) if losses < 30 else len(flying)
        carried_out = data.draw(st.integers(lost_at, len(flying)))
        losses += lost_at < len(flying)
        for at, bundle in enumerate(flying):
            if at < carried_out:
                if bundle.sequence == len(stored):
                    stored += bundle.values
                assert bundle.sequence < len(stored), "a gap"
            if at < lost_at:
                assert queue.acknowledged(bundle) == []
                accumulator.release(bundle)
                acknowledged += 1
        for bundle in flying[lost_at:]:
            bundle.maybe_stored = True
            assert queue.failed(bundle, LOST, retry=True, retry_at_ms=0.0) == []
        flying = []
    assert stored == [b"%d" % number for number in range(count)]
    assert accumulator.held_bytes == 0


def test_many_messages_with_keys_are_shared_out_as_single_ones_are() -> None:
    accumulator = new_accumulator(batch_bytes=1000)
    accumulator.topics["t"].partitions = 4
    keys = [None if n % 5 == 0 else b"k%d" % (n % 7) for n in range(100)]
    values = [b"%d" % n for n in range(100)]
    found: dict[int | None, list[bytes | None]] = {}
    for place, run in accumulator.runs("t", InputColumns(values, keys, list(range(100))), None):
        assert place not in found
        found[place] = list(run.values)
        assert run.keys is not None
        for value, key, stamp in zip(run.values, run.keys, run.timestamps_ms, strict=True):
            assert (value, key) == (values[stamp], keys[stamp])
            assert place == (accumulator.place("t", key, None).partition if key else None)
    assert found[None] == values[::5]
    for run_values in found.values():
        assert run_values == sorted(run_values, key=lambda value: int(value or 0)), (
            "in the order they were given"
        )
    assert sum(map(len, found.values())) == 100
    assert accumulator.runs("t", InputColumns(values, keys, list(range(100))), 2) == [
        (2, InputColumns(values, keys, list(range(100))))
    ]


def test_a_bundle_that_was_sent_and_waits_too_long_leaves_no_gap() -> None:
    """It is surely not stored: those behind it take its sequence numbers."""
    _, queue = filled(3)
    first, second, third = send_all(queue)
    for bundle in (first, second, third):
        queue.failed(bundle, errors.NotEnoughReplicas("too few"), retry=True, retry_at_ms=0.0)
    assert queue.expire(first.opened_ms) == [first]
    assert [(bundle, bundle.sequence) for bundle in send_all(queue)] == [(second, 0), (third, 1)]


def test_a_bundle_that_was_sent_and_may_be_stored_takes_those_sent_behind_it_along() -> None:
    _, queue = filled(3)
    first, second, third = send_all(queue)
    for bundle in (first, second):
        bundle.maybe_stored = True
    for bundle in (first, second, third):
        queue.failed(bundle, LOST, retry=True, retry_at_ms=0.0)
    assert queue.expire(first.opened_ms) == [first, second]
    assert queue.needs_identity
    queue.identity = ProducerIdentity(8, 0)
    assert [(bundle, bundle.sequence, bundle.identity) for bundle in send_all(queue)] == [
        (third, 0, ProducerIdentity(8, 0))
    ]
