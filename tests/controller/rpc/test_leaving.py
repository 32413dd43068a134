"""What a controller answers to a broker that is about to be stopped."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tank_controller.commands.outcome import Rejected
from tank_controller.rpc.leaving import may_leave
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.governed import Governed
from tests.support.controllers.governed import governed


def rooms_of(world: Governed, *, leads: bool = True, behind: bool = False) -> Any:
    def read(done: Callable[[Rejected | None], None]) -> None:
        done(Rejected(ErrorCode.NO_LEADER, "another leads") if behind else None)

    return SimpleNamespace(
        brokers=SimpleNamespace(leads=leads, not_leader=lambda: pb.NotLeader(leader="c2:1")),
        proposals=SimpleNamespace(read=read),
        metadata=SimpleNamespace(state=world.cluster.state),
        scaling=world.scaling,
    )


class Kubernetes:
    """Says how many brokers are wanted when it is asked."""

    def __init__(self, world: Governed, wanted: int) -> None:
        self._world, self._wanted = world, wanted

    async def look(self) -> bool:
        self._world.scaling.wanted = self._wanted
        return True

    async def is_taken_down(self) -> bool:
        return False


class SilentKubernetes:
    """Never says anything, and has been asked for long."""

    unsure = False

    async def look(self) -> bool:
        return not self.unsure

    async def is_taken_down(self) -> bool:
        return False


class UnsureKubernetes(SilentKubernetes):
    """Doesn't say anything, and hasn't been asked for long."""

    unsure = True


def ask(node: Any, kubernetes: Any = None, **request: Any) -> pb.LeaveAnswer:
    return asyncio.run(may_leave(node, kubernetes, pb.LeaveRequest(**request)))


def test_who_does_not_lead_or_may_be_behind_names_the_leader() -> None:
    assert ask(None, broker_id=1).HasField("not_leader")
    for node in (rooms_of(governed(3), leads=False), rooms_of(governed(3), behind=True)):
        assert ask(node, broker_id=1).not_leader.leader == "c2:1"


def test_it_looks_first_how_many_are_wanted_now() -> None:
    world = governed(4)
    answer = ask(rooms_of(world), Kubernetes(world, 3), broker_id=4)
    assert (answer.may_stop, answer.reason) == (False, "Broker 4 is about to be drained.")
    assert answer.replicas == len(world.cluster.state.held_by(4))


def test_a_broker_that_is_being_scaled_down_waits_while_kubernetes_does_not_answer_a_new_leader() -> None:
    world = governed(5, factor=1)
    world.scaling.wanted = 4
    world.step()
    answer = ask(rooms_of(Governed(world.cluster)), SilentKubernetes(), broker_id=5)
    assert not answer.may_stop
    assert answer.replicas > 0


def test_nobody_is_let_go_while_it_is_unsure_whether_it_is_to_leave() -> None:
    world = governed(3, factor=1)
    answer = ask(rooms_of(world), UnsureKubernetes(), broker_id=3)
    assert (answer.may_stop, answer.replicas) == (False, len(world.cluster.state.held_by(3)))
    assert "Kubernetes doesn't say" in answer.reason
    assert ask(rooms_of(world), SilentKubernetes(), broker_id=3).may_stop
    assert ask(rooms_of(world, leads=False), UnsureKubernetes(), broker_id=3).HasField("not_leader")


def test_without_kubernetes_a_broker_may_stop_where_the_others_are_enough() -> None:
    world = governed(3)
    assert ask(rooms_of(world), broker_id=3).may_stop
    assert not ask(rooms_of(world), broker_id=2).may_stop


def test_events_are_for_pods_that_say_who_they_are() -> None:
    world = governed(3)
    ask(rooms_of(world), broker_id=3, pod_name="tank-broker-2")
    assert not world.scaling.news
    ask(rooms_of(world), broker_id=3, pod_name="tank-broker-2", pod_uid="u")
    (news,) = world.scaling.news
    assert news.pod is not None
    assert (news.pod.name, news.pod.uid) == ("tank-broker-2", "u")


def test_what_is_too_long_to_be_a_pods_name_is_answered_and_not_remembered() -> None:
    world = governed(3)
    for name, uid in (("n" * 254, "u"), ("tank-broker-2", "u" * 65)):
        assert ask(rooms_of(world), broker_id=3, pod_name=name, pod_uid=uid).may_stop
    assert not world.scaling.news
    ask(rooms_of(world), broker_id=3, pod_name="n" * 253, pod_uid="u" * 64)
    assert len(world.scaling.news) == 1


class EndingKubernetes(SilentKubernetes):
    """The release was uninstalled."""

    async def is_taken_down(self) -> bool:
        return True


def test_all_brokers_may_stop_when_the_release_is_taken_down_whoever_leads() -> None:
    """No replica needs to be waited for, and maybe no controller leads any more."""
    for leads in (True, False):
        world = governed(3, factor=3)
        for broker_id in (1, 2, 3):
            node = rooms_of(world, leads=leads)
            answer = ask(node, EndingKubernetes(), broker_id=broker_id, pod_name="p", pod_uid="u")
            assert (answer.may_stop, answer.reason) == (True, "The whole cluster is taken down.")
        assert not world.scaling.news, "no event warns of what is wanted"
