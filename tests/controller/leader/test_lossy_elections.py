"""When nobody who is whole can lead: who may then, and how it is marked."""

import pytest

from tank_protos.error_codes import ErrorCode
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands_for_tests import alter

# --- lossy elections ---


def all_impaired(cluster: Cluster) -> int:
    """A topic whose last two in-sync replicas, 2 and 3, are back, both impaired; 1 is behind, and away."""
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.up(2, new_disk=True)
    cluster.up(3, damaged=[(t, 0)])
    assert (cluster.partition(t).eligible, cluster.partition(t).impaired) == ((2, 3), (2, 3))
    assert cluster.partition(t).leader == 0
    return t


def test_when_none_of_those_that_could_lead_is_whole_the_greatest_end_leads_and_it_is_marked() -> None:
    cluster = Cluster(1, 2, 3)
    t = all_impaired(cluster)
    cluster.do(cluster.lossy(t, {2: (1, 100), 3: (2, 50)}))
    partition = cluster.partition(t)
    assert (partition.leader, partition.in_sync) == (3, (3,)), "the epoch counts first"
    assert (partition.lossy_elections, partition.lossy_epoch) == (1, partition.leader_epoch)
    assert (partition.eligible, partition.impaired) == ((), ())
    assert cluster.seen(t).partitions[0].lossy_epoch == partition.leader_epoch


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        ({2: (1, 100), 3: (1, 101)}, 3),
        ({2: (1, 100), 3: (1, 100)}, 2),
        ({2: None, 3: (0, 0)}, 3),
    ],
)
def test_the_greatest_is_by_epoch_then_by_number_then_by_preference(
    ends: dict[int, tuple[int, int] | None], leader: int
) -> None:
    cluster = Cluster(1, 2, 3)
    t = all_impaired(cluster)
    cluster.do(cluster.lossy(t, ends))
    assert cluster.partition(t).leader == leader


def test_of_equal_ends_the_one_before_which_nothing_is_missing_leads() -> None:
    cluster = Cluster(1, 2, 3)
    t = all_impaired(cluster)
    command = cluster.lossy(t, {2: (1, 100), 3: (1, 100)})
    command.elect_lossy.ends[0].damaged = True
    cluster.do(command)
    assert cluster.partition(t).leader == 3


def test_a_replica_that_was_out_of_sync_is_taken_when_it_has_more_than_the_impaired_ones() -> None:
    cluster = Cluster(1, 2, 3)
    t = all_impaired(cluster)
    cluster.unfence(1)
    cluster.do(cluster.lossy(t, {1: (1, 90), 2: (0, 0), 3: (1, 80)}))
    assert cluster.partition(t).leader == 1


def test_a_lossy_election_waits_for_all_that_could_be_whole_and_for_what_they_say() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.up(2, new_disk=True)
    assert cluster.error(cluster.lossy(t, {2: (1, 5)})) is ErrorCode.NOT_ELECTABLE, "3 may be whole"
    cluster.register(3, new_disk=True)
    assert cluster.error(cluster.lossy(t, {2: (1, 5), 3: (1, 9)})) is ErrorCode.NOT_ELECTABLE, "fenced"
    cluster.unfence(3)
    assert cluster.error(cluster.lossy(t, {2: (1, 5)})) is ErrorCode.INELIGIBLE_REPLICA
    said = cluster.lossy(t, {2: (1, 5), 3: (1, 9)})
    cluster.up(3)
    assert cluster.error(said) is ErrorCode.INELIGIBLE_REPLICA, "another process said it"
    cluster.do(cluster.lossy(t, {2: (1, 5), 3: (1, 9)}))
    assert cluster.error(said) is ErrorCode.NOT_ELECTABLE, "somebody leads"


def test_there_is_no_lossy_election_where_somebody_leads() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(2, 3)
    cluster.up(3, new_disk=True)
    assert cluster.partition(t).eligible == cluster.partition(t).impaired == (3,)
    assert cluster.error(cluster.lossy(t, {3: (9, 9)})) is ErrorCode.NOT_ELECTABLE
    assert cluster.partition(t).leader == 1


def test_when_nobody_has_anything_to_lead_with_the_partition_waits() -> None:
    cluster = Cluster(1, 2, 3)
    t = all_impaired(cluster)
    assert cluster.error(cluster.lossy(t, {2: None, 3: None})) is ErrorCode.NOT_ELECTABLE
    assert cluster.error(cluster.lossy(99, {})) is ErrorCode.UNKNOWN_PARTITION


# --- unclean elections ---


def test_without_an_eligible_replica_the_partition_waits_or_an_operator_decides() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.unfence(1)
    assert cluster.error(cluster.elect(t)) is ErrorCode.NOT_ELECTABLE
    cluster.do(cluster.elect(t, unclean=True))
    partition = cluster.partition(t)
    assert (partition.leader, partition.in_sync, partition.eligible) == (1, (1,), ())
    assert (partition.lossy_elections, partition.lossy_epoch) == (1, partition.leader_epoch)
    epoch = partition.leader_epoch
    cluster.do(cluster.elect(t, unclean=True))
    assert cluster.partition(t).leader_epoch == epoch, "somebody leads: nothing to do"


def test_an_unclean_election_takes_a_living_broker_that_is_not_known_to_have_lost_something() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    assert cluster.error(cluster.elect(t, unclean=True)) is ErrorCode.NOT_ELECTABLE
    cluster.up(2, new_disk=True)
    cluster.unfence(1)
    cluster.do(cluster.elect(t, unclean=True))
    assert cluster.partition(t).leader == 1


def test_an_unclean_election_takes_an_impaired_replica_when_there_is_no_other() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    cluster.fence(1, 2, 3)
    cluster.up(2, new_disk=True)
    cluster.do(cluster.elect(t, unclean=True))
    assert cluster.partition(t).leader == 2


def test_a_topic_may_allow_unclean_elections_and_by_default_none_does() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic()
    u = cluster.topic("u", unclean__leader__election="true")
    cluster.fence(1, 2, 3)
    cluster.unfence(1)
    assert (cluster.partition(t).leader, cluster.partition(u).leader) == (0, 1)
    assert cluster.partition(u).lossy_elections == 1
    cluster.do(alter(t, 0, {"unclean.leader.election": "true"}))
    assert cluster.partition(t).leader == 1


def test_a_topic_that_allows_unclean_elections_has_clean_ones_while_it_can() -> None:
    cluster = Cluster(1, 2, 3)
    t = cluster.topic(unclean__leader__election="true")
    cluster.set_in_sync(t, 1, 3)
    cluster.fence(1)
    assert cluster.partition(t).leader == 3
    cluster.fence(3)
    assert (cluster.partition(t).leader, cluster.partition(t).lossy_elections) == (2, 1)
