"""The leader's pure parts and followers in every order that a network makes of it."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.replication.push_frame import Part
from tank_protos.generated.tank import PushAnswer
from tests.support.nodes.push_model import ModelFollower, ModelLeader, line_to


class Wire:
    """A connection: pushes one way, answers the other, each in order; both may be under way for long."""

    def __init__(self, leader: ModelLeader, follower_id: int, follower: ModelFollower) -> None:
        self.leader = leader
        self.follower_id = follower_id
        self.follower = follower
        self.pushes: list[list[Part]] = []
        self.answers: list[PushAnswer] = []
        self.line = line_to(follower_id, short_pushes=follower_id)  # the first one's wait for each other
        leader.connect(self.line)

    def send(self, now_ms: int) -> None:
        self.line.beat(now_ms)
        while frame := self.line.next_frame(now_ms):
            self.pushes.append(frame)

    def push(self) -> None:
        if self.pushes:
            self.answers.append(self.follower.take(self.pushes.pop(0)))

    def answer(self, now_ms: int) -> None:
        if self.answers:
            self.line.answered(self.answers.pop(0), now_ms)


@st.composite
def logs_of_a_past(draw: st.DrawFn) -> list[list[int]]:
    """Two to four logs as earlier leaders have left them: each epoch began once, behind a cut of some log
    that there was, so what two logs have of one epoch lies behind the same."""
    written: list[list[int]] = [[]]
    for epoch, (parent, cut, count) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4)), max_size=6)), 1
    ):
        before = written[parent % len(written)]
        written.append(before[: cut % (len(before) + 1)] + [epoch] * count)
    left = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=4))
    logs = [(written[which % len(written)], cut) for which, cut in left]
    return [log[: len(log) - cut % (len(log) + 1)] for log, cut in logs]


STEPS = ("append", "send", "push", "answer", "lose", "fail", "wait")


@pytest.mark.parametrize("by_the_letter", [False, True])
@given(
    logs_of_a_past(),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2)), max_size=80),
    st.data(),
)
def test_the_mark_is_matched_by_all_and_never_falls_and_all_come_to_the_same(
    by_the_letter: bool,
    past: list[list[int]],
    steps: list[tuple[str, int]],
    data: st.DataObject,
) -> None:
    log, *others = past
    # What was committed before is on everybody: the new leader was elected from the in-sync set.
    common = 0
    while all(common < len(one) and one[: common + 1] == log[: common + 1] for one in others):
        if common == len(log):
            break
        common += 1
    mark = data.draw(st.integers(0, common))
    ids = tuple(range(1, len(others) + 1))
    leader = ModelLeader(log, 7, ids, mark)
    followers = [ModelFollower(one, mark, by_the_letter=by_the_letter) for one in others]
    wires = [Wire(leader, i, follower) for i, follower in zip(ids, followers, strict=True)]
    now_ms = 0

    def check() -> None:
        reached = leader.in_sync.mark
        assert leader.marks == sorted(leader.marks)
        assert reached <= len(leader.log)
        for follower in followers:
            assert follower.log[:reached] == leader.log[:reached]
            assert follower.mark <= reached

    for step, who in steps:
        wire = wires[who % len(wires)]
        if step == "append":
            leader.append(now_ms)
        elif step == "send":
            wire.send(now_ms)
        elif step == "push":
            wire.push()
        elif step == "answer":
            wire.answer(now_ms)
        elif step == "wait":
            now_ms += 300
        elif step == "fail":
            wire.follower.failures += 1
        else:  # the connection breaks; what is under way may have arrived, or not
            if len(wire.pushes) % 2:
                wire.push()
            leader.disconnect(wire.follower_id)
            wires[who % len(wires)] = Wire(leader, wire.follower_id, wire.follower)
        check()
    _heal(leader, wires, now_ms, check)


def _heal(leader: ModelLeader, wires: list[Wire], now_ms: int, check: Callable[[], None]) -> None:
    """From now on nothing is lost: all come to the same, in bounded time."""
    for _ in range(60):
        now_ms += 300
        for wire in wires:
            wire.send(now_ms)
            while wire.pushes or wire.answers:
                wire.push()
                wire.answer(now_ms)
                wire.send(now_ms)
            check()
    assert leader.in_sync.mark == len(leader.log)
    for wire in wires:
        # A follower may hold more: nothing was pushed that its own numbers contradict.
        assert wire.follower.log[: len(leader.log)] == leader.log
        assert wire.follower.mark == len(leader.log)


class _EndsInAHole(ModelLeader):
    """Its log ends in a number that no batch has: it was lost, or compacted away."""

    log_end = property(lambda self: len(self.log) + 1)


def test_who_has_every_batch_is_not_asked_for_ever_about_an_end_without_one() -> None:
    leader = _EndsInAHole([1] * 5, 2, (1,), mark=6)
    line, follower = line_to(1), ModelFollower([1] * 5)
    leader.connect(line)
    for numbers in (5, 6):
        asked = 0
        while frame := line.next_frame(0):
            asked += 1
            assert asked < 5, "it is asked again for each answer"
            line.answered(follower.take(frame), 0)
        assert leader.in_sync.replicas[1].matched == numbers
        leader.append()


def test_while_short_pushes_are_unanswered_what_comes_leaves_together() -> None:
    leader = ModelLeader([1] * 5, 2, (1,))
    line, follower = line_to(1, short_pushes=2), ModelFollower([1] * 5)
    leader.connect(line)
    line.answered(follower.take(line.next_frame(0)), 0)
    sent = []
    for _ in range(4):
        leader.append()
        sent.append(line.next_frame(0))
    assert [bool(frame) for frame in sent] == [True, True, False, False]
    line.answered(follower.take(sent[0]), 0)
    together = line.next_frame(0)
    assert together
    assert line.places[leader.topic_id, leader.number].sent == 9
    assert not line.next_frame(0), "two are under way again"
    line.answered(follower.take(sent[1]), 0)
    line.answered(follower.take(together), 0)
    assert leader.in_sync.replicas[1].matched == 9
