"""How many brokers are wanted, and what the leading controller makes of it."""

import pytest

from tank_controller import limits
from tank_controller.leader import scaling
from tank_controller.leader.scaling import Pod, Reason, Scaling, ScalingState
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.governed import STEP_MS, Governed
from tests.support.controllers.governed import governed


def told(scaling: Scaling) -> list[tuple[Reason, str]]:
    found = [(news.reason, news.text) for news in scaling.news]
    scaling.news.clear()
    return found


def leave(world: Governed, broker_id: int, pod: Pod | None = None) -> scaling.StopDecision:
    return world.scaling.judge(world.cluster.state, broker_id, pod, world.now_ms)


# --- fewer ---


def test_the_highest_brokers_are_drained_stop_when_they_hold_nothing_and_are_removed() -> None:
    world = governed(5)
    world.scaling.wanted = 3
    verdict = leave(world, 5)
    assert not verdict.may_stop, "before it is drained, new replicas may come"
    world.step()
    assert [each.scaled_down for each in world.cluster.state.brokers.values()] == [False] * 3 + [True] * 2
    verdict = leave(world, 5)
    assert not verdict.may_stop
    assert verdict.replicas > 0
    assert (
        verdict.text == f"Broker 5 leaves the cluster: {verdict.replicas} replicas have yet to go elsewhere."
    )
    world.rest()
    assert leave(world, 5).may_stop
    assert leave(world, 4).may_stop
    assert set(world.cluster.state.brokers) == {1, 2, 3, 4, 5}, "they run"
    world.cluster.fence(4, 5)
    world.step()
    assert set(world.cluster.state.brokers) == {1, 2, 3}
    assert all(len(p.in_sync) == 3 for p in world.partitions())
    assert [text for _, text in told(world.scaling)] == [
        "Broker 4 is drained: 3 brokers are wanted.",
        "Broker 5 is drained: 3 brokers are wanted.",
        "Broker 4 holds nothing any more, has stopped, and was removed.",
        "Broker 5 holds nothing any more, has stopped, and was removed.",
    ]


def test_a_broker_that_is_merely_gone_does_not_leave() -> None:
    world = governed(5)
    before = world.held()
    world.cluster.fence(5)
    world.rest()
    assert world.held() == before
    assert not world.cluster.state.brokers[5].draining


def test_what_would_leave_too_few_is_refused_and_said_and_keeps_what_it_holds() -> None:
    world = governed(3)
    before = world.held()
    world.scaling.wanted = 2
    world.rest()
    assert world.scaling.standings(world.cluster.state) == {3: ScalingState.REFUSED}
    assert world.held() == before
    text = (
        "Broker 3 can't leave the cluster: a topic has replication factor 3, and fewer brokers would be "
        "left. Its volume keeps its data: scale up to 3 or more."
    )
    assert told(world.scaling) == [(Reason.REFUSED, text)]
    pod = Pod("tank-broker-2", "u")
    assert leave(world, 3, pod).may_stop, "two are enough for a while"
    assert [(news.reason, news.text, news.pod) for news in world.scaling.news] == [
        (Reason.REFUSED, text, pod)
    ]


def test_who_is_refused_is_known_for_as_long_as_it_lasts() -> None:
    world = governed(3)
    assert world.scaling.refusals(world.cluster.state) == {}
    world.scaling.wanted = 2
    (found,) = world.scaling.refusals(world.cluster.state).items()
    assert found[0] == 3
    assert found[1].startswith("Broker 3 can't leave the cluster: ")
    world.scaling.wanted = 3
    assert world.scaling.refusals(world.cluster.state) == {}


def test_brokers_in_pods_are_called_by_them() -> None:
    world = governed(3)
    for broker_id, broker in world.cluster.state.brokers.items():
        host = f"tank-broker-{broker_id - 1}.tank-broker.data.svc.cluster.local"
        broker.endpoints = (("tank", host, 11011), ("outside", "example.org", 31011))
    world.scaling.wanted = 2
    assert world.scaling.refusals(world.cluster.state)[3].startswith(
        "Broker 3 (pod tank-broker-2) can't leave"
    )
    assert leave(world, 1).may_stop
    assert "Without broker 2 (pod tank-broker-1), " in leave(world, 2).text
    assert "waits for broker 1 (pod tank-broker-0)" in leave(world, 2).text


def test_a_volume_that_has_filled_is_told_with_what_to_do() -> None:
    world = governed(3)
    epoch = world.cluster.epoch(2)
    world.cluster.do(pb.Command(set_broker=pb.SetBroker(broker_id=2, epoch=epoch, no_room=True)))
    world.run(60)
    assert told(world.scaling) == [
        (
            Reason.FULL,
            "The volume of broker 2 has filled: others lead what they can. Enlarge its volume claim, or "
            "scale up: some replicas move to a new broker.",
        )
    ]
    assert Reason.FULL.is_warning


def test_of_several_as_many_leave_as_can_and_the_others_take_their_replicas_first() -> None:
    world = governed(5)
    world.scaling.wanted = 2
    world.step()
    standings = world.scaling.standings(world.cluster.state)
    assert standings == {5: ScalingState.LEAVES, 4: ScalingState.LEAVES, 3: ScalingState.REFUSED}
    verdict = leave(world, 3)
    assert not verdict.may_stop
    assert verdict.text == "Broker 3 takes replicas of brokers 4, 5, and waits until they are there."
    world.rest()
    assert leave(world, 3).may_stop
    assert all(set(p.replicas) == {1, 2, 3} for p in world.partitions())


def test_the_widest_topic_says_how_many_are_needed_and_without_topics_one_is() -> None:
    world = Governed(Cluster(1, 2, 3))
    world.scaling.wanted = 1
    assert set(world.scaling.standings(world.cluster.state).values()) == {ScalingState.LEAVES}
    world.cluster.topic("two", factor=2)
    assert world.scaling.standings(world.cluster.state) == {3: ScalingState.LEAVES, 2: ScalingState.REFUSED}
    world.cluster.topic("three", factor=3)
    assert world.scaling.standings(world.cluster.state) == {3: ScalingState.REFUSED, 2: ScalingState.REFUSED}


def test_zero_stops_all_and_says_nothing_of_who_belongs_to_the_cluster() -> None:
    world = governed(3)
    world.scaling.wanted = 0
    assert not world.step().commands
    assert all(leave(world, broker_id).may_stop for broker_id in (1, 2, 3))


def test_without_a_wanted_number_nobody_is_drained() -> None:
    world = governed(5)
    world.scaling.wanted = None
    world.rest()
    assert not any(broker.draining for broker in world.cluster.state.brokers.values())
    assert leave(world, 5).may_stop


def test_who_was_to_leave_still_waits_until_it_holds_nothing_when_nobody_says_how_many_are_wanted() -> None:
    world = governed(5)
    world.scaling.wanted = 4
    world.step()
    another = Governed(world.cluster)
    assert another.scaling.wanted is None, "a leader of a moment, or one that Kubernetes doesn't answer"
    verdict = leave(another, 5)
    assert (verdict.may_stop, verdict.reason) == (False, Reason.DRAINING)
    assert verdict.replicas > 0
    another.run(scaling.YOUNG_MS // 1000 + 1)
    assert leave(another, 4).may_stop, "the others stay, as ever"
    world.rest()
    assert leave(another, 5).may_stop


def test_one_that_was_killed_before_it_held_nothing_is_drained_on_and_then_removed() -> None:
    world = governed(5)
    world.scaling.wanted = 4
    world.step()
    world.cluster.fence(5)
    assert len(world.cluster.state.held_by(5)) > 0
    world.rest()
    assert set(world.cluster.state.brokers) == {1, 2, 3, 4}


def test_one_that_stopped_with_the_only_replica_of_something_stays_a_member_and_is_told_of() -> None:
    world = governed(2, partitions=2, factor=1)
    world.scaling.wanted = 1
    world.cluster.fence(2)
    world.rest()
    assert 2 in world.cluster.state.brokers
    reason, text = told(world.scaling)[-1]
    assert reason is Reason.DATA_LEFT
    assert "with 1 partitions that no other broker has in sync" in text
    world.scaling.wanted = 2
    world.cluster.up(2)
    world.rest()
    assert not world.cluster.state.brokers[2].draining
    assert all(p.leader for p in world.partitions())


# --- more ---


def test_scaling_up_again_takes_a_drain_back_and_replicas_return() -> None:
    world = governed(5)
    world.scaling.wanted = 3
    world.run(1)
    world.scaling.wanted = 5
    world.rest()
    assert not any(broker.draining or broker.scaled_down for broker in world.cluster.state.brokers.values())
    assert all(count > 0 for count in world.held().values())
    assert (Reason.TAKEN_BACK, "Broker 5 stays: it is not drained any more.") in told(world.scaling)


def test_what_a_person_drains_is_left_alone_and_does_not_count_among_those_that_are_left() -> None:
    world = governed(5)
    world.cluster.set_broker(1, draining=True)
    world.rest()
    assert world.cluster.state.brokers[1].draining, "five are wanted, and it is one of them"
    world.scaling.wanted = 3
    world.step()
    assert world.scaling.standings(world.cluster.state) == {5: ScalingState.LEAVES, 4: ScalingState.REFUSED}


def test_one_that_a_person_had_drained_before_is_removed_when_it_is_not_wanted_any_more() -> None:
    world = governed(4)
    world.cluster.set_broker(4, draining=True)
    world.rest()
    world.scaling.wanted = 3
    world.cluster.fence(4)
    world.step()
    assert set(world.cluster.state.brokers) == {1, 2, 3}


def test_a_new_leader_goes_on_with_a_drain_and_takes_back_what_another_began() -> None:
    world = governed(5)
    world.scaling.wanted = 3
    world.step()
    another = Governed(world.cluster)
    another.scaling.wanted = 5
    another.rest()
    assert not any(broker.draining for broker in world.cluster.state.brokers.values())


def test_a_drain_that_a_person_takes_back_is_a_scale_down_no_more_until_the_controller_looks() -> None:
    world = governed(5)
    world.scaling.wanted = 4
    world.step()
    world.cluster.set_broker(5, draining=False)
    assert not world.cluster.state.brokers[5].scaled_down
    world.step()
    assert world.cluster.state.brokers[5].scaled_down


# --- one after the other ---


def test_of_two_that_ask_at_a_time_one_stops_and_the_other_waits_until_it_is_back_in_sync() -> None:
    world = governed(3)
    assert leave(world, 3).may_stop
    verdict = leave(world, 2)
    assert not verdict.may_stop
    assert (
        verdict.text == "Without broker 2, t/0 would have 1 replicas in sync and needs 2: waits for broker 3."
    )
    world.cluster.fence(3)
    assert not leave(world, 2).may_stop
    world.cluster.up(3)
    assert not leave(world, 2).may_stop, "it is there, but not in sync"
    world.catch_up()
    assert leave(world, 2).may_stop


def test_who_may_stop_and_does_not_counts_as_there_again_after_a_while() -> None:
    world = governed(3)
    assert leave(world, 3).may_stop
    assert leave(world, 3).may_stop, "it asks again: it is the one"
    world.now_ms += scaling.GRANT_MS
    assert leave(world, 2).may_stop


def test_a_new_leader_waits_for_whom_the_one_before_it_may_have_let_stop() -> None:
    world = governed(3)
    assert leave(world, 3).may_stop
    later = Governed(world.cluster)
    later.scaling.wanted = 3
    later.now_ms = world.now_ms
    verdict = leave(later, 2)
    assert not verdict.may_stop, "3 stops, and the state doesn't show it yet"
    assert "Another controller leads since a moment" in verdict.text
    later.run(scaling.YOUNG_MS // 1000)
    assert leave(later, 2).may_stop, "3 hasn't stopped"
    later.scaling.begin_term()
    world.cluster.fence(3)
    later.catch_up()
    assert leave(later, 3).may_stop, "nobody waits for one that is fenced"


def test_nobody_waits_for_what_the_others_could_never_be_enough_for() -> None:
    assert leave(governed(2, factor=1), 2).may_stop
    world = governed(2, factor=2)
    assert leave(world, 2).may_stop
    assert not leave(world, 1).may_stop, "one of two is in sync, and the other is about to stop"


def test_a_fenced_broker_and_one_that_nobody_knows_may_stop() -> None:
    world = governed(3)
    world.cluster.fence(3)
    assert leave(world, 3).may_stop
    assert leave(world, 9).text == "Broker 9 is no member of the cluster."
    assert leave(world, 9).may_stop


def test_one_that_shuts_down_counts_as_gone() -> None:
    world = governed(3)
    world.cluster.set_broker(1, shutting_down=True)
    assert not leave(world, 2).may_stop


# --- events ---


def test_figures_that_change_are_told_now_and_then_and_another_matter_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_MOVING_TO_BROKER", 1)
    world = governed(5, partitions=200)
    pod = Pod("tank-broker-4", "u")
    world.scaling.wanted = 4
    world.step()
    told(world.scaling)
    for _ in range(scaling.TELL_AGAIN_MS // STEP_MS + 1):
        world.step()
        assert not leave(world, 5, pod).may_stop
    (first, much), (second, less) = told(world.scaling)
    assert first is second is Reason.DRAINING
    assert much != less
    world.rest()
    assert leave(world, 5, pod).may_stop
    assert leave(world, 5, pod).may_stop
    assert told(world.scaling) == [
        (Reason.MAY_STOP, "Broker 5 leaves the cluster: it holds nothing any more.")
    ]


def test_news_that_nobody_fetches_are_bounded() -> None:
    found = Scaling(wanted=1)
    state = Cluster(1, 2).state
    for number in range(scaling.MAX_TOLD + 10):
        found.judge(state, 1, Pod(f"p{number}", "u"), 0)
    assert len(found.news) == scaling.MAX_NEWS
    assert found.news[-1].pod == Pod(f"p{scaling.MAX_TOLD + 9}", "u")


def test_set_broker_without_a_word_of_scaling_leaves_it_as_it_is() -> None:
    cluster = Cluster(1)
    change = pb.SetBroker(broker_id=1, draining=True, scaled_down=True)
    cluster.do(pb.Command(set_broker=change))
    cluster.set_broker(1, shutting_down=True)
    assert cluster.state.brokers[1].scaled_down
    cluster.up(1)
    assert cluster.state.brokers[1].scaled_down, "a restart is no reason to stay"
    assert cluster.state.brokers[1].draining
