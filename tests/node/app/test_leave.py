"""Waiting until a broker's process may be stopped, over everything that controllers may answer."""

import asyncio
from collections.abc import Callable

from tank_controller.k8s.api_server import CONNECT_S, READ_S
from tank_node.app.leave import ANSWER_S, ASK_EVERY_S, NAMELESS_S, SILENT_S, Ending, Waited, wait_to_leave
from tank_protos.generated import control_pb2 as pb

CONTROLLERS = ["c0:1", "c1:1", "c2:1"]
Answer = pb.LeaveAnswer | None


class Wait:
    """One waiting, in a time of its own."""

    def __init__(
        self,
        answer: Callable[["Wait", str], Answer],
        is_named: Callable[["Wait", str], bool] = lambda wait, address: True,
    ) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.told: list[str] = []
        self._answer = answer
        self._is_named = is_named

    def run(self, within_s: float = 100.0) -> Waited:
        async def ask(address: str) -> Answer:
            self.asked.append(address)
            return self._answer(self, address)

        async def is_named(address: str) -> bool:
            return self._is_named(self, address)

        async def sleep(seconds: float) -> None:
            self.now += seconds

        return asyncio.run(
            wait_to_leave(CONTROLLERS, within_s, ask, is_named, lambda: self.now, sleep, self.told.append)
        )


def may(reason: str = "It holds nothing.") -> Answer:
    return pb.LeaveAnswer(may_stop=True, reason=reason)


def must_wait(reason: str) -> Answer:
    return pb.LeaveAnswer(reason=reason)


def not_leader(leader: str = "") -> Answer:
    return pb.LeaveAnswer(not_leader=pb.NotLeader(leader=leader))


def test_the_leader_that_is_named_is_asked_at_once_and_then_again_and_again() -> None:
    wait = Wait(
        lambda w, at: not_leader("c2:1") if at != "c2:1" else may() if w.now >= 2 else must_wait("5 left")
    )
    assert wait.run() == Waited(Ending.MAY_STOP, "It holds nothing.")
    assert wait.asked == ["c0:1"] + ["c2:1"] * 5
    assert wait.now == 2.0


def test_those_that_are_away_are_passed_over() -> None:
    wait = Wait(lambda w, at: may() if at == "c2:1" else None)
    assert wait.run().ending is Ending.MAY_STOP
    assert wait.asked == CONTROLLERS


def test_two_whose_machines_are_gone_are_passed_over_and_only_then_is_it_known_who_answers() -> None:
    def answer(wait: Wait, address: str) -> Answer:
        if address == "c2:1":
            return may()
        wait.now += ANSWER_S  # nothing comes back, not even a refusal
        return None

    assert Wait(answer).run().ending is Ending.MAY_STOP


def test_a_controller_that_kubernetes_does_not_answer_is_given_the_time_to_find_out() -> None:
    assert ANSWER_S > CONNECT_S + READ_S


def test_two_that_name_each_other_are_asked_with_pauses() -> None:
    names = {"c0:1": "c1:1", "c1:1": "c0:1"}
    wait = Wait(lambda w, at: not_leader(names[at]))
    assert wait.run(within_s=50).ending is Ending.TIME_IS_UP
    assert len(wait.asked) <= 2 * 50 / ASK_EVERY_S + 2


def test_a_leader_that_was_named_and_is_away_is_not_asked_for_ever() -> None:
    wait = Wait(lambda w, at: not_leader("gone:1") if at == "c0:1" else may() if at == "c1:1" else None)
    assert wait.run().ending is Ending.MAY_STOP


def test_when_the_time_is_up_the_last_word_is_kept() -> None:
    wait = Wait(lambda w, at: must_wait(f"{100 - int(w.now)} left"))
    assert wait.run(within_s=20) == Waited(Ending.TIME_IS_UP, "80 left")
    assert wait.told == ["100 left", "95 left", "90 left", "85 left", "80 left"]


def test_what_is_said_again_is_not_told_again() -> None:
    wait = Wait(lambda w, at: must_wait("waits for broker 3"))
    wait.run(within_s=60)
    assert wait.told == ["waits for broker 3"]


def test_where_no_controller_is_left_nobody_waits_for_the_whole_time() -> None:
    wait = Wait(lambda w, at: must_wait("waits for broker 3") if w.now < 10 else None)
    assert wait.run(within_s=600) == Waited(Ending.NOBODY_ANSWERS, "waits for broker 3")
    assert 10 + SILENT_S - 1 <= wait.now <= 10 + SILENT_S + 1


def test_controllers_that_choose_a_leader_are_waited_for() -> None:
    wait = Wait(lambda w, at: None if w.now < SILENT_S - 2 else may())
    assert wait.run().ending is Ending.MAY_STOP


def test_controllers_that_answer_and_choose_nobody_for_long_are_waited_for_within_the_time() -> None:
    """A broker that is drained would stop with what it holds, and nobody could give that to others."""
    wait = Wait(lambda w, at: must_wait("7 left") if w.now < 5 else not_leader() if w.now < 90 else may())
    assert wait.run(within_s=600).ending is Ending.MAY_STOP
    wait = Wait(lambda w, at: not_leader() if at == "c1:1" else None)
    assert wait.run(within_s=600) == Waited(Ending.TIME_IS_UP, ""), "one that is left says that it lives"
    assert 600 <= wait.now <= 601


def test_controllers_without_names_were_taken_away_and_are_not_waited_for() -> None:
    wait = Wait(lambda w, at: None, lambda w, at: False)
    assert wait.run().ending is Ending.TAKEN_DOWN
    assert NAMELESS_S <= wait.now < NAMELESS_S + 2
    assert set(wait.asked) == set(CONTROLLERS), "each of them"


def test_controllers_that_crashed_have_names_and_are_waited_for() -> None:
    for named in ("c1:1", *CONTROLLERS):
        wait = Wait(lambda w, at: None, lambda w, at, named=named: at == named)  # type: ignore[misc]
        assert wait.run().ending is Ending.NOBODY_ANSWERS
        assert wait.now >= SILENT_S


def test_names_that_come_back_with_new_pods_are_waited_for() -> None:
    """All controllers' pods were deleted at a time: for a moment none has a name."""
    wait = Wait(lambda w, at: may() if w.now >= 4 else None, lambda w, at: w.now >= 2)
    assert wait.run().ending is Ending.MAY_STOP
