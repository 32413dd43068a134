"""What is wrong with a cluster, in sentences; docs/operations.md goes on from each."""

import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tank_cli.cluster.advice import FAR_BEHIND, Seen, advice
from tank_cli.cluster.report import free_text, trouble_rows
from tank_cli.shell.brokers import reports as broker_reports
from tank_cli.shell.brokers.reports import AskedBroker, ask_brokers
from tank_client.model import BrokerReport, PartitionTrouble, Trouble
from tank_controller.leader.reports.report import Controller, Row
from tank_protos.generated import control_pb2 as pb
from tests.support.nodes.served_node import ServedNode

GIB = 1 << 30
TOPIC = pb.TopicSummary(topic=pb.Topic(topic_id=7, name="t"), min_insync=2)
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")


def controller(
    number: int,
    problem: str = "",
    behind: int = 0,
    *,
    down: bool = False,
    leads: bool = False,
    leader: str = "c1:1",
    members: Sequence[pb.ControllerMember] = (),
) -> Controller:
    said = pb.ControllersDescription(
        node=pb.RaftNode(ordinal=number, disk=b"d"),
        problem=problem,
        leads=leads,
        leader=leader,
        members=members,
    )
    if down:
        return Controller(f"c{number}:1", number, None, "it can't be reached", behind)
    return Controller(f"c{number}:1", number, said, "", behind)


def member(number: int, *, votes: bool = True) -> pb.ControllerMember:
    return pb.ControllerMember(
        node=pb.RaftNode(ordinal=number, disk=b"d"), votes=votes, address=f"c{number}:1"
    )


def load(
    number: int, *, fenced: bool = False, connected: bool = True, draining: bool = False, replicas: int = 0
) -> pb.BrokerLoad:
    broker = pb.Broker(broker_id=number, fenced_index=5 if fenced else 0, draining=draining)
    return pb.BrokerLoad(broker=broker, connected=connected, replicas=replicas)


def row(in_sync: list[int], *troubles: int, adding: list[int] | None = None) -> Row:
    return Row(TOPIC, pb.Partition(replicas=[1, 2, 3], in_sync=in_sync, adding=adding or []), troubles)


def report(free_bytes: int | None = 50 * GIB, *troubles: PartitionTrouble) -> BrokerReport:
    return BrokerReport(1, "", 0, 0, "/d", 0, free_bytes, 100 * GIB, 0, 0, troubles)


WELL = Seen(
    [controller(1), controller(2), controller(3)],
    pb.OverviewAnswer(brokers=[load(1), load(2)], partitions=3),
    [],
    [],
    [AskedBroker(1, report()), AskedBroker(2, report(None))],
)


def said(
    members: list[Controller] | None = None,
    found: pb.OverviewAnswer | None = None,
    waiting: list[Row] | None = None,
    lacking: list[Row] | None = None,
    asked: list[AskedBroker] | None = None,
) -> list[str]:
    """All lines about a cluster that is well but for this."""
    seen = Seen(
        members or WELL.members,
        found or WELL.found,
        waiting or [],
        lacking or [],
        WELL.asked if asked is None else asked,
    )
    found_advice = advice(seen, lambda words: f"tank cluster {words}")
    return [line for each in found_advice for line in (each.said, *each.more)]


def test_of_a_cluster_that_is_well_nothing_is_said() -> None:
    assert said() == []


def test_controllers_that_are_down_and_how_many_more_may_go() -> None:
    assert said([controller(1), controller(2), controller(3, down=True)]) == [
        "1 controller can't be reached: c3:1: one more loss, and none can lead."
    ]
    two = [controller(1), controller(2, down=True), controller(3, down=True)]
    assert said(two) == ["2 controllers can't be reached: c2:1, c3:1: none can lead."]
    five = [*two[:2], *(controller(number) for number in (3, 4, 5))]
    assert said(five) == ["1 controller can't be reached: c2:1."]


def test_only_controllers_that_vote_count() -> None:
    """Two of five were removed, and are named by who asks still."""
    three = [member(1), member(2), member(3)]
    gone = [controller(4, down=True), controller(5, down=True)]
    removed = [
        f"No process answers at c{number}:1, which is no controller's address: "
        "don't name it in --controllers."
        for number in (4, 5)
    ]
    well = [controller(1, leads=True, members=three), controller(2), controller(3)]
    assert said([*well, *gone]) == removed
    assert said([*well[:2], controller(3, down=True), *gone]) == [
        "1 controller can't be reached: c3:1: one more loss, and none can lead.",
        *removed,
    ]


def test_the_charts_list_is_nothing_to_change_by_hand() -> None:
    """In a pod it is as old as the pod, and may name what was scaled away since."""
    three = [member(1), member(2), member(3)]
    well = [controller(1, leads=True, members=three), controller(2), controller(3)]
    seen = replace(WELL, members=[*well, controller(4, down=True)])
    assert advice(seen, str, "") == []
    (typed,) = advice(seen, str, "TANK_CONTROLLERS")
    assert typed.said.endswith("don't name it in TANK_CONTROLLERS.")


def test_a_scale_down_that_is_refused_is_said() -> None:
    refused = pb.ScaleDownRefused(broker_id=3, why="Broker 3 (pod tank-broker-2) can't leave: scale up to 3.")
    found = pb.OverviewAnswer(brokers=[load(1), load(2)], partitions=3, scale_down_refused=[refused])
    assert said(found=found) == ["Broker 3 (pod tank-broker-2) can't leave: scale up to 3."]


def test_what_runs_in_pods_is_called_by_them() -> None:
    fenced = load(2, fenced=True, connected=False)
    host = "tank-broker-1.tank-broker.data.svc.cluster.local"
    fenced.broker.endpoints.add(name="tank", host=host, port=11011)
    words = said(found=pb.OverviewAnswer(brokers=[load(1), fenced], partitions=3), lacking=[row([1, 3])])
    assert "Broker 2 (pod tank-broker-1) is fenced: it is down, or can't reach the controllers." in words
    pod = replace(controller(1, "it waits"), address="tank-controller-1.tank-controller.data.svc:9090")
    assert said([pod])[0].startswith("Controller 1 (pod tank-controller-1): it waits")


def test_a_learner_is_none_that_counts() -> None:
    two = [member(1), member(2), member(3, votes=False)]
    alone = [controller(1, members=two, leader=""), controller(2, down=True), controller(3)]
    assert said(alone) == ["1 controller can't be reached: c2:1: none can lead."]
    learns = [controller(1, leads=True, members=two), controller(2), controller(3, down=True)]
    assert said(learns) == ["Controller 3 doesn't vote yet, and can't be reached."]


def test_controllers_that_are_asked_by_other_names_are_there() -> None:
    """As behind `kubectl port-forward`: what they are called among themselves nobody reaches from here."""
    three = [member(1), member(2), member(3)]
    unheard = [controller(number, down=True) for number in (1, 2, 3)]
    forwarded = [
        replace(controller(number, leads=number == 1, members=three), address=f"localhost:{number}")
        for number in (1, 2, 3)
    ]
    assert said([*forwarded, *unheard]) == []
    assert said([forwarded[0], *unheard]) == ["2 controllers can't be reached: c2:1, c3:1 from here."]


def test_a_controller_that_is_cut_off_from_the_others_is_named() -> None:
    members = [controller(1, leads=True), controller(2), controller(3, leader="")]
    assert said(members) == [
        "Controller 3 knows no leader: it reaches too few of the others.",
    ]
    nobody = [controller(number, leader="") for number in (1, 2, 3)]
    assert said(nobody) == [], "none leads: that is said of all of them"


def test_a_broker_that_was_drained_and_stopped_is_to_be_removed() -> None:
    gone = pb.OverviewAnswer(brokers=[load(3, fenced=True, connected=False, draining=True)])
    assert said(found=gone) == [
        "Broker 3 is fenced: it was drained, and is down.",
        "It holds nothing any more: tank cluster remove 3",
    ]
    holds = pb.OverviewAnswer(brokers=[load(3, fenced=True, connected=False, draining=True, replicas=1)])
    assert "Start it" in said(found=holds)[1]


def test_what_a_controller_says_of_itself_and_that_it_is_far_behind() -> None:
    members = [
        controller(1, "its disk is full"),
        controller(2, behind=FAR_BEHIND + 1),
        controller(3, behind=9),
    ]
    assert said(members) == [
        "Controller 1: its disk is full.",
        "Controller 2 is 10,001 entries behind: it is slow, or cut off.",
    ]


def test_leaderless_partitions_come_with_the_way_out() -> None:
    found = pb.OverviewAnswer(leaderless=1, below_min_insync=1, under_replicated=1)
    lines = said(found=found, waiting=[row([], pb.LEADERLESS)], lacking=[row([])])
    assert lines[0].startswith("Leaderless partitions take no messages")
    assert lines[-1] == "If it can't be started at all: tank cluster elect --unclean t 0"
    assert len(lines) == 3, "that they are below min.insync, too, is no news"


def test_partitions_that_lack_replicas_name_the_brokers_that_are_missing() -> None:
    found = pb.OverviewAnswer(below_min_insync=1, under_replicated=2)
    assert said(found=found, lacking=[row([2]), row([1, 2])]) == [
        "1 partition below min.insync.replicas: nothing is acknowledged there.",
        "brokers 1, 3 are out of sync; tank cluster partitions --under-replicated",
    ]
    found = pb.OverviewAnswer(under_replicated=2)
    assert said(found=found, lacking=[row([1, 3]), row([1], adding=[3])]) == [
        "2 partitions under-replicated: one more loss may stop them.",
        "broker 2 is out of sync; tank cluster partitions --under-replicated",
    ]


def test_lossy_elections_stay_told() -> None:
    assert said(found=pb.OverviewAnswer(lossy_elections=2)) == [
        "Acknowledged messages may be lost, since 2 lossy elections.",
        "tank cluster partitions --lossy says of which partitions; it stays counted",
    ]


def test_fenced_brokers_with_and_without_a_stream() -> None:
    found = pb.OverviewAnswer(brokers=[load(1), load(2, fenced=True), load(3, fenced=True, connected=False)])
    assert said(found=found) == [
        "Broker 2 is fenced although it is connected: it is starting, or gets no changes from the "
        "controllers.",
        "Broker 3 is fenced: it is down, or can't reach the controllers.",
        "Start it. Gone for good: tank cluster drain 3, then `remove 3`.",
    ]


def with_clock(number: int, ahead_ms: int | None, *, leads: int = 0) -> pb.BrokerLoad:
    found = load(number)
    found.broker.clock_off, found.leads = True, leads
    if ahead_ms is not None:
        found.clock_ahead_ms = ahead_ms
    return found


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (with_clock(2, 40_000), "The clock of broker 2 is 40.0 s ahead: others lead; set it right."),
        (with_clock(2, -12_340), "The clock of broker 2 is 12.3 s behind: others lead; set it right."),
        (with_clock(2, None), "The clock of broker 2 is off: others lead; set it right."),
        (
            with_clock(2, 40_000, leads=3),
            "The clock of broker 2 is 40.0 s ahead: it leads 3 partitions that no other can; set it right.",
        ),
    ],
)
def test_a_broker_whose_clock_is_off_is_named_with_what_it_still_leads(
    found: pb.BrokerLoad, sentence: str
) -> None:
    assert said(found=pb.OverviewAnswer(brokers=[load(1), found])) == [sentence]


def test_a_leading_controllers_clock_counts_from_the_allowed_skew_on() -> None:
    def told(ahead_ms: int) -> list[str]:
        found = pb.OverviewAnswer(
            brokers=[load(1), load(2)], clock_skew_max_ms=10_000, controller_clock_ahead_ms=ahead_ms
        )
        return said(found=found)

    assert told(10_000) == told(-10_000) == []
    assert told(-10_500) == ["The leading controller's clock is 10.5 s behind: set it right."]


def test_clocks_without_a_majority_are_said_alone() -> None:
    found = pb.OverviewAnswer(
        brokers=[load(1), load(2)],
        clocks_disagree=True,
        clock_skew_max_ms=10_000,
        controller_clock_ahead_ms=99_000,
    )
    first, _ = said(found=found)
    assert first.startswith("The brokers' clocks disagree, and no majority agrees")


def test_what_there_is_of_a_secret() -> None:
    def of(
        standing: pb.OverviewAnswer.SecretStanding,
        brokers: tuple[int, ...] = (),
        controllers: tuple[int, ...] = (),
    ) -> list[str]:
        found = pb.OverviewAnswer(
            brokers=[load(1), load(2)], partitions=3, secret=standing,
            brokers_unproven=brokers, controllers_unproven=controllers,
        )  # fmt: skip
        return said(found=found)

    assert of(pb.OverviewAnswer.UNSAID) == of(pb.OverviewAnswer.DEMANDED) == []
    assert of(pb.OverviewAnswer.NO_SECRET) == [
        "The cluster has no secret: every process that reaches the controllers' port is trusted.",
        "Give all its processes, and this command, one file with --secret-file (TANK_SECRET_FILE).",
    ]
    assert of(pb.OverviewAnswer.OFFERED, (2,), (3,)) == [
        "The cluster's secret isn't demanded yet: every process that reaches the controllers' port "
        "is trusted.",
        "Not proved by broker 2, controller 3: start with --secret-file.",
    ]


def test_what_brokers_say_of_their_disks() -> None:
    failed = PartitionTrouble("t", 1, Trouble.FAILED, "fsync failed")
    asked = [
        AskedBroker(1, report(9 * GIB, failed)),
        AskedBroker(2, report(10 * GIB)),
        AskedBroker(3, None, "no way there"),
    ]
    assert said(asked=asked) == [
        "Broker 1 can't use 1 partition as it should: check its disk and log.",
        "What broker 3 says of its disk is unknown: no way there.",
        "Broker 1 has 9.0 GiB of 100.0 GiB free: a full disk takes no messages.",
    ]
    hangs = [PartitionTrouble("t", number, Trouble.HANGS, "an fsync") for number in (2, 3)]
    assert said(asked=[AskedBroker(1, report(50 * GIB, failed, *hangs))]) == [
        "The disk of broker 1 hangs: 2 partitions acknowledge nothing there.",
        "If this lasts, kill -9 broker 1: other brokers lead then. Check its disk.",
        "Broker 1 can't use 1 partition as it should: check its disk and log.",
    ]
    believes = PartitionTrouble("t", 4, Trouble.UNKNOWN_EPOCH, "it believes leader epoch 9")
    assert said(asked=[AskedBroker(1, report(50 * GIB, believes))]) == [
        "Broker 1 heard of a leader epoch of 1 partition that the controllers have not announced.",
        "It takes messages of no older leader until the controllers confirm the epoch: check its connection.",
    ]
    full = controller(2)
    assert full.said is not None
    full.said.free_bytes, full.said.disk_bytes = 9 * GIB, 100 * GIB
    assert said([controller(1), full, controller(3)], asked=[]) == [
        "Controller 2 has 9.0 GiB of 100.0 GiB free: a full disk takes no changes."
    ]
    assert trouble_rows(asked[0]) == [["1", "t/1", "failed", "fsync failed"]]
    assert trouble_rows(asked[2]) == []
    assert [free_text(each) for each in asked] == ["9.0 GiB", "10.0 GiB", "-"]


def test_a_full_disk_is_named_with_the_command_that_helps() -> None:
    def full(leads: int = 0, host: str = "") -> pb.OverviewAnswer:
        broker = pb.Broker(broker_id=1, no_room=True, endpoints=[pb.Endpoint(name="tank", host=host)])
        return pb.OverviewAnswer(brokers=[pb.BrokerLoad(broker=broker, connected=True, leads=leads)])

    more = "Or have one more broker, by scaling up or `tank cluster up`: replicas move there."
    assert said(found=full(), asked=[AskedBroker(1, report(1 << 20))]) == [
        "The disk of broker 1, 100.0 GiB, is full: others lead.",
        "Enlarge it, or shorten what topics keep; once it is larger, the broker leads again by itself.",
        more,
    ]
    pod = "tank-broker-0.tank-broker.data.svc.cluster.local"
    assert said(found=full(2, pod), asked=[]) == [
        "The disk of broker 1 (pod tank-broker-0) is full: it leads 2 partitions that no other can.",
        "Enlarge it: kubectl patch pvc data-tank-broker-0 --type merge -p "
        '\'{"spec":{"resources":{"requests":{"storage":"SIZE"}}}}\'',
        more,
    ]
    assert said(found=full(), asked=[AskedBroker(1, report(50 * GIB))]) == [
        "Broker 1 has room again, and leads nothing that others can, since its disk was full.",
        "Restart it, or have it lead again: tank cluster drain 1 --undo",
    ]


@pytest.mark.parametrize(
    "words",
    [
        "can't be reached", "entries behind", "Leaderless partitions", "below min.insync.replicas",
        "under-replicated", "Acknowledged messages may be lost", "is fenced",
        "fenced although it is connected", "can't use",
        "free: a full disk takes no messages", "free: a full disk takes no changes",
        "is unknown", "knows no leader", "no controller's address",
        "doesn't vote yet, and can't be reached", "it was drained, and is down",
    ],
)  # fmt: skip
def test_each_sentence_has_its_place_in_the_page(words: str) -> None:
    code = (Path(broker_reports.__file__).parents[2] / "cluster/advice.py").read_text(encoding="utf-8")
    assert words in code
    assert words in PAGE


def test_brokers_are_asked_themselves_and_who_does_not_answer_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_reports, "PATIENCE_MS", 500)
    with socket.socket() as silent, ServedNode(tmp_path / "data") as node:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        ports = {1: node.port, 2: silent.getsockname()[1], 3: node.port}
        loads = [
            pb.BrokerLoad(
                broker=pb.Broker(
                    broker_id=number, endpoints=[pb.Endpoint(name="tank", host="127.0.0.1", port=port)]
                )
            )
            for number, port in ports.items()
        ]
        gone = pb.BrokerLoad(broker=pb.Broker(broker_id=4, fenced_index=9))
        nowhere = pb.BrokerLoad(broker=pb.Broker(broker_id=5))
        one, two, three, five = ask_brokers(pb.OverviewAnswer(brokers=[*loads, gone, nowhere]))
    assert one.report is not None
    assert one.report.free_bytes is not None
    assert one.json()["reached"] is True
    assert (two.report, two.why) == (None, f"127.0.0.1:{ports[2]} can't be asked from here")
    assert three.why == f"broker 1 answers at 127.0.0.1:{node.port}"
    assert five.why == "another broker has its address"
