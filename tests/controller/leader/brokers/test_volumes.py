"""Brokers whose volumes are full: what heartbeats say becomes state, and others lead and take replicas."""

from pathlib import Path

import pytest

from tank_controller.leader.brokers.volumes import BrokerRooms
from tank_controller.leader.reports import checks
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands_for_tests import create
from tests.controller.governed import Governed
from tests.controller.office import Broker, Office


class Heard:
    """Brokers, and a leading controller that hears of their volumes."""

    def __init__(self, *brokers: int) -> None:
        self.cluster = Cluster(*brokers)
        self.rooms = BrokerRooms()

    def says(self, broker_id: int, room: pb.VolumeRoom, epoch: int = 0) -> int:
        """A heartbeat; how many commands came of it."""
        epoch = epoch or self.cluster.epoch(broker_id)
        self.rooms.heard(broker_id, epoch, pb.BrokerHeartbeat(room=room))
        commands = self.rooms.tick(self.cluster.state)
        for command in commands:
            self.cluster.do(command)
        return len(commands)

    @property
    def full(self) -> list[int]:
        return [each.broker_id for each in self.cluster.state.brokers.values() if each.no_room]


def test_a_broker_without_room_is_marked_until_it_has_enough() -> None:
    heard = Heard(1, 2, 3)
    assert heard.says(2, pb.ROOM_NONE) == 1
    assert heard.full == [2]
    assert heard.says(2, pb.ROOM_NONE) == 0, "it is known"
    assert heard.says(2, pb.ROOM_AGAIN) == 0, "retention may have freed it"
    assert heard.says(2, pb.ROOM_UNSAID) == 0
    assert heard.full == [2]
    assert heard.says(2, pb.ROOM_ENOUGH) == 1
    assert heard.full == []


def test_an_older_process_of_a_broker_and_an_older_cluster_say_nothing() -> None:
    heard = Heard(1, 2)
    old = heard.cluster.epoch(2)
    heard.cluster.up(2)
    assert heard.says(2, pb.ROOM_NONE, old) == 0
    assert heard.says(7, pb.ROOM_NONE, 1) == 0


def test_a_new_leader_begins_with_nothing() -> None:
    heard = Heard(1, 2)
    heard.rooms.heard(2, heard.cluster.epoch(2), pb.BrokerHeartbeat(room=pb.ROOM_NONE))
    heard.rooms.begin_term()
    assert heard.rooms.tick(heard.cluster.state) == []


def test_the_mark_outlives_the_process_until_the_next_one_says_what_it_found() -> None:
    heard = Heard(1, 2, 3)
    heard.says(2, pb.ROOM_NONE)
    heard.cluster.up(2)
    assert heard.full == [2]
    heard.says(2, pb.ROOM_ENOUGH)
    assert heard.full == []


def test_others_lead_in_its_place_and_it_comes_back_by_hand() -> None:
    heard = Heard(1, 2, 3)
    t = heard.cluster.topic(partitions=6)
    governed = Governed(heard.cluster)
    governed.run(30)
    assert governed.led()[1] == 2
    heard.says(1, pb.ROOM_NONE)
    governed.run(5)
    assert governed.led()[1] == 0
    assert all(len(p.in_sync) == 3 for p in heard.cluster.state.topics[t].partitions), "it is a copy still"
    heard.says(1, pb.ROOM_AGAIN)
    governed.run(60)
    assert governed.led()[1] == 0
    heard.cluster.do(pb.Command(set_broker=checks.draining(1, on=False)))
    heard.says(1, pb.ROOM_AGAIN)
    governed.run(60)
    assert governed.led()[1] == 2
    heard.says(1, pb.ROOM_NONE)
    governed.run(5)
    assert governed.led()[1] == 0, "it has filled once more"


def test_where_none_has_room_the_preferred_one_leads_and_one_that_drains_rather() -> None:
    heard = Heard(1, 2, 3)
    t = heard.cluster.topic()
    first, second, third = heard.cluster.partition(t).replicas
    governed = Governed(heard.cluster)
    for broker_id in (first, second, third):
        heard.says(broker_id, pb.ROOM_NONE)
    governed.run(5)
    assert heard.cluster.partition(t).leader == first
    heard.says(third, pb.ROOM_ENOUGH)
    governed.run(5)
    assert heard.cluster.partition(t).leader == third
    heard.cluster.set_broker(third, draining=True)
    governed.run(5)
    assert heard.cluster.partition(t).leader == third, "it takes messages"


def test_replicas_go_to_brokers_with_room_as_far_as_there_are_enough() -> None:
    heard = Heard(1, 2, 3, 4)
    heard.says(2, pb.ROOM_NONE)
    t = heard.cluster.topic(partitions=4)
    assert all(set(p.replicas) == {1, 3, 4} for p in heard.cluster.state.topics[t].partitions)
    u = heard.cluster.do(create("u", 1, 4)).topic_id
    assert set(heard.cluster.partition(u).replicas) == {1, 2, 3, 4}, "a topic can be made all the same"
    governed = Governed(heard.cluster)
    governed.run(30)
    assert all(set(p.replicas) == {1, 3, 4} for p in heard.cluster.state.topics[t].partitions)
    placed = pb.Placed(topic_id=t, partition=0, replicas=[1, 2, 3])
    assert (
        heard.cluster.error(pb.Command(reassign=pb.Reassign(partitions=[placed])))
        is ErrorCode.INELIGIBLE_REPLICA
    )


def test_a_new_broker_takes_replicas_of_one_without_room() -> None:
    heard = Heard(1, 2, 3)
    heard.cluster.topic(partitions=12)
    heard.says(1, pb.ROOM_NONE)
    heard.cluster.up(4)
    governed = Governed(heard.cluster)
    governed.run(60)
    held = {each: len(heard.cluster.state.held_by(each)) for each in (1, 2, 3, 4)}
    assert held[1] < 12
    assert held[4] > 0


def test_a_full_broker_takes_nothing_of_one_that_is_to_be_drained() -> None:
    def load(number: int, *, no_room: bool = False) -> pb.BrokerLoad:
        return pb.BrokerLoad(broker=pb.Broker(broker_id=number, no_room=no_room), replicas=4)

    found = pb.OverviewAnswer(brokers=[load(1), load(2), load(3, no_room=True)], widest=2)
    assert checks.drain_problem(found, 3) == ""
    assert checks.drain_problem(found, 1) == (
        "There are topics with 2 replicas, and only 2 brokers that live and stay without broker 1, of which "
        "1 without room: start another one first."
    )


@pytest.fixture
def office(tmp_path: Path) -> Office:
    office = Office(tmp_path)
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    return office


def test_the_desk_hears_it_by_heartbeats(office: Office) -> None:
    def beat(broker: Broker, room: pb.VolumeRoom) -> None:
        heartbeat = pb.BrokerHeartbeat(seen_index=broker.line.index, room=room)
        broker.say(pb.BrokerUp(heartbeat=heartbeat))

    first = office.broker(1)
    beat(first, pb.ROOM_NONE)
    office.until(lambda: office.state.brokers[1].no_room)
    beat(first, pb.ROOM_ENOUGH)
    office.until(lambda: not office.state.brokers[1].no_room)
