"""How a cluster's state is put in words."""

import pytest

from tank_cli.cluster import report
from tank_controller.leader.reports import report as api_report
from tank_controller.leader.reports.report import Row
from tank_protos.generated import control_pb2 as pb

TOPIC = pb.TopicSummary(topic=pb.Topic(topic_id=7, name="t"), min_insync=2)


def row(partition: pb.Partition, *troubles: int) -> Row:
    return Row(TOPIC, partition, troubles)


@pytest.mark.parametrize(
    ("eligible", "impaired", "fenced", "said", "waits_for"),
    [
        ([2, 3], [], [2, 3], "waits for broker 2 or 3", [2, 3]),
        ([2, 3], [3], [2], "waits for broker 2", [2]),
        ([2, 3], [3], [2, 3], "waits for broker 2", [2]),
        ([2, 3], [2, 3], [2, 3], "waits for broker 2 and 3", [2, 3]),
        ([2, 3], [2, 3], [1, 3], "waits for broker 3", [3]),
        (
            [2, 3],
            [2, 3],
            [1],
            "all came back and may have lost messages; the controllers ask which has most",
            [],
        ),
    ],
)
def test_a_leaderless_partition_waits_for_any_that_was_whole_else_for_all(
    eligible: list[int], impaired: list[int], fenced: list[int], said: str, waits_for: list[int]
) -> None:
    waiting = row(pb.Partition(replicas=[1, 2, 3], eligible=eligible, impaired=impaired), pb.LEADERLESS)
    assert report.waiting_text(waiting, fenced) == said
    assert waiting.waits_for(fenced) == waits_for
    assert row(waiting.partition).waits_for(fenced) == [], "one that is led waits for nobody"


def test_who_cannot_read_a_log_is_named_where_all_came_back_impaired() -> None:
    partition = pb.Partition(replicas=[1, 2, 3], eligible=[2, 3], impaired=[2, 3])
    part = pb.PartitionsAnswer(
        topics=[TOPIC],
        partitions=[
            pb.PartitionReport(topic_id=7, partition=partition, troubles=[pb.LEADERLESS], unreadable=[3])
        ],
    )
    (waiting,) = api_report.rows([part])
    assert report.waiting_text(waiting, []) == "can't read the log of broker 3: start it again"
    assert report.waiting_text(waiting, [2]) == "waits for broker 2"
    assert api_report.partition_json(waiting, [])["unreadable"] == [3]


def test_a_partitions_state_says_the_worst_first() -> None:
    partition = pb.Partition(replicas=[1, 2, 4], in_sync=[2], adding=[4], removing=[1])
    troubles = [pb.UNDER_REPLICATED, pb.BELOW_MIN_INSYNC, pb.MOVING]
    assert report.partition_state(row(partition, *troubles), []) == (
        "below min.insync (1 of 2); moves to 4 off 1"
    )
    assert report.partition_state(row(partition, pb.UNDER_REPLICATED), []) == "under-replicated"
    assert report.partition_state(row(partition, pb.DISPLACED), []) == "1 is to lead"
    assert report.partition_state(row(partition, pb.LOSSY), []) == "ok"


@pytest.mark.parametrize(
    ("fenced", "connected", "draining", "replicas", "stopping", "state"),
    [
        (0, True, False, 3, False, "alive"),
        (0, False, False, 3, False, "alive, not connected"),
        (9, True, False, 3, False, "fenced, connected"),
        (9, False, True, 3, False, "fenced, draining"),
        (0, True, True, 0, True, "alive, drained, stopping"),
    ],
)
def test_a_brokers_state_in_words(
    fenced: int, connected: bool, draining: bool, replicas: int, stopping: bool, state: str
) -> None:
    broker = pb.Broker(broker_id=1, fenced_index=fenced, draining=draining, shutting_down=stopping)
    load = pb.BrokerLoad(broker=broker, connected=connected, replicas=replicas)
    assert report.broker_state(load) == state


def test_a_broker_whose_clock_is_off_says_so_beside_its_other_states() -> None:
    broker = pb.Broker(broker_id=1, clock_off=True)
    found = pb.BrokerLoad(broker=broker, connected=True)
    assert report.broker_state(found) == "alive, clock off"
    found.broker.fenced_index = 9
    assert report.broker_state(found) == "fenced, connected, clock off"


def test_a_broker_that_kubectl_scaled_away_says_so() -> None:
    load = pb.BrokerLoad(
        broker=pb.Broker(broker_id=5, draining=True, scaled_down=True), connected=True, replicas=3
    )
    assert report.broker_state(load) == "alive, draining, scaled down"
    found = report.brokers_text(pb.OverviewAnswer(brokers=[load, pb.BrokerLoad(broker=pb.Broker())]))
    assert found == "2: 2 alive, 1 draining, 1 scaled down"


def test_a_topics_settings_have_units() -> None:
    topic = pb.Topic(name="t", replication_factor=3)
    topic.settings.add(key="log.retention.secs", value="604800")
    topic.settings.add(key="flush", value="disk")
    row = report.topic_row(api_report.TopicCounts(pb.TopicSummary(topic=topic)))
    assert row[report.TOPIC_COLUMNS.index("Settings")] == "log.retention.secs=7d, flush=disk"


@pytest.mark.parametrize(
    ("brokers", "controllers", "topics", "groups", "said"),
    [
        ([], [], [], [], "1"),
        ([3], [], [], [], "1; level 2 waits for broker 3"),
        ([3, 4], [1], [], [], "1; level 2 waits for brokers 3,4 and controller 1"),
        ([], [], ["t"], [], "1; level 2 waits for the deletion of topic t"),
        ([], [], [], ["g"], "1; level 2 waits for the deletion of group g"),
    ],
)
def test_the_feature_level_says_what_holds_up_the_next(
    brokers: list[int], controllers: list[int], topics: list[str], groups: list[str], said: str
) -> None:
    found = pb.OverviewAnswer(
        feature_level=1,
        brokers_behind=brokers,
        controllers_behind=controllers,
        topics_in_the_way=topics,
        groups_in_the_way=groups,
    )
    assert report.level_text(found) == said
    told = api_report.status_json([], found, [], [])
    assert told["next_level_waits_for"] == {
        "brokers": brokers,
        "controllers": controllers,
        "topics": topics,
        "groups": groups,
    }


def test_it_says_that_iggys_clients_wait_for_their_level() -> None:
    found = pb.OverviewAnswer(feature_level=4, brokers_behind=[3])
    assert report.level_text(found) == "4; level 5, which Iggy's clients need, waits for broker 3"
    assert report.level_text(pb.OverviewAnswer(feature_level=4)) == "4"


def test_a_controller_that_answers_under_a_second_name_is_listed_once() -> None:
    own = pb.RaftNode(ordinal=1, disk=b"a")
    members = [pb.ControllerMember(node=own, votes=True, address="one:1")]
    said = pb.ControllersDescription(node=own, members=members)
    for asked in (["one:1", "any:1"], ["any:1", "one:1"]):
        found = api_report.controllers(dict.fromkeys(asked, said))
        assert [each.address for each in found] == ["one:1"]
    (only,) = api_report.controllers({"any:1": said, "one:1": "it can't be reached"})[:1]
    assert only.said is said, "it is not named where it doesn't answer"
    stranger = pb.ControllersDescription(node=pb.RaftNode(ordinal=1, disk=b"b"), members=members)
    assert len(api_report.controllers({"one:1": said, "any:1": stranger})) == 2, "another disk is another one"


def test_a_controller_that_learns_or_is_down_is_told_from_one_that_follows() -> None:
    own, other = pb.RaftNode(ordinal=1, disk=b"a"), pb.RaftNode(ordinal=2, disk=b"b")
    members = [
        pb.ControllerMember(node=own, votes=False, address="one:1"),
        pb.ControllerMember(node=other, votes=True, address="two:2"),
    ]
    learner = pb.ControllersDescription(node=own, members=members, commit_index=5, applied_index=3)
    found = api_report.controllers({"two:2": "it can't be reached", "one:1": learner})
    assert [(each.ordinal, each.state, each.behind) for each in found] == [(1, "learns", 2), (2, "down", 0)]
    assert report.controller_row(found[1]) == ["2", "two:2", "down: it can't be reached", "-", "-", "-"]
