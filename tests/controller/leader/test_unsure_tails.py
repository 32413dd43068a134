"""Where a broker's tail may lack what was acknowledged: from memory, by whoever leads, or led before."""

import pytest

from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands_for_tests import alter
from tests.support.controllers.eligible import both_eligible


def test_an_unsure_tail_counts_where_acknowledged_messages_may_have_been_in_memory_alone() -> None:
    cluster = Cluster(1, 2)
    disk = both_eligible(cluster, flush="disk")
    cluster.up(1)
    cluster.up(2)
    cluster.set_in_sync(disk, 1, 2)
    memory = cluster.topic("m", factor=2, min__insync__replicas="2", flush="replicated")
    cluster.fence(2, 1)
    cluster.up(2, sure=False)
    assert cluster.partition(disk).leader == 2
    assert cluster.partition(memory).leader == 0
    assert cluster.partition(memory).impaired == (2,)


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (True, True)])
def test_a_topic_that_says_nothing_is_unsure_everywhere_as_soon_as_one_broker_acknowledges_from_memory(
    before: bool, after: bool
) -> None:
    cluster = Cluster(1)
    cluster.up(2, flush_replicated=before)
    t = both_eligible(cluster)
    cluster.up(2, sure=False, flush_replicated=after)
    assert cluster.partition(t).impaired == (2,)
    cluster.up(1, sure=False)
    assert cluster.partition(t).leader == 0, "its own default is flush=disk, but it followed the other"
    assert cluster.partition(t).impaired == (1, 2)


def test_what_was_acknowledged_from_memory_stays_so_when_the_broker_has_another_default() -> None:
    cluster = Cluster(2)
    cluster.up(1, flush_replicated=True)
    t = both_eligible(cluster)
    cluster.up(1, flush_replicated=False)
    cluster.up(2, sure=False)
    assert cluster.partition(t).impaired == (2,)
    later = cluster.topic("later", factor=2)
    assert not cluster.state.topics[later].was_replicated, "nobody acknowledges from memory any more"


def test_what_was_acknowledged_from_memory_stays_so_when_the_broker_is_removed() -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=2, min__insync__replicas="2")
    explicit = cluster.topic("d", factor=2, min__insync__replicas="2", flush="disk")
    cluster.up(3, flush_replicated=True)
    cluster.fence(3)
    cluster.do(pb.Command(remove_broker=pb.RemoveBroker(broker_id=3)))
    cluster.fence(2, 1)
    cluster.up(2, sure=False)
    assert cluster.partition(t).impaired == (2,)
    assert cluster.partition(explicit).impaired == (), "it was always on disk"


@pytest.mark.parametrize("unset", [False, True])
def test_a_tail_of_before_flush_became_disk_is_as_unsure_as_it_was(unset: bool) -> None:
    cluster = Cluster(1, 2)
    t = cluster.topic(factor=2, min__insync__replicas="2", flush="replicated")
    cluster.do(alter(t, unset=("flush",)) if unset else alter(t, settings={"flush": "disk"}))
    cluster.fence(2, 1)
    cluster.up(2, sure=False)
    assert cluster.partition(t).impaired == (2,)
    assert cluster.partition(t).leader == 0
    cluster.up(1)
    assert (cluster.partition(t).leader, cluster.partition(t).lossy_elections) == (1, 0)


def test_a_topic_whose_brokers_flushed_before_they_acknowledged_is_sure_whoever_says_so() -> None:
    cluster = Cluster(1, 2)
    t = both_eligible(cluster)
    cluster.do(alter(t, settings={"flush": "disk"}))
    cluster.up(2, sure=False)
    assert cluster.partition(t).leader == 2


def test_brokers_whose_own_flush_was_replicated_leave_an_unsure_tail_when_the_topic_says_disk() -> None:
    cluster = Cluster(1)
    cluster.up(2, flush_replicated=True)
    t = both_eligible(cluster)
    cluster.do(alter(t, settings={"flush": "disk"}))
    cluster.up(2, sure=False, flush_replicated=True)
    assert cluster.partition(t).impaired == (2,)


def test_a_sure_tail_is_whole_under_flush_replicated() -> None:
    cluster = Cluster(1, 2)
    t = both_eligible(cluster, flush="replicated")
    cluster.up(2, sure=True)
    assert cluster.partition(t).leader == 2
