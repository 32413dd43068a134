"""`tank lag` against a broker in a dictionary."""

from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_client.model import CommittedPosition
from tests.cli.conftest import Tank
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.clients.scripted_client import FakeBroker


def committed(broker: FakeBroker, group: str, *numbers: int) -> None:
    """The group's positions in the first partitions of the topic `flights`."""
    broker.positions[group] = {
        ("flights", partition): CommittedPosition(number, "", 1_357_017_420_000)
        for partition, number in enumerate(numbers)
    }


def lines(text: str) -> list[list[str]]:
    """The words of each line below the titles."""
    return [line.split() for line in text.splitlines()[1:]]


def test_lag_counts_what_is_unread_and_what_has_expired(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", [str(n) for n in range(10)], [])
    broker.topics["flights"].expired = 4
    committed(broker, "audit", 3, 1)
    found = parsed(tank("lag", "-o", "json"))
    assert_same_shape(found, SHAPES["lag"][0])
    assert [(each["lag"], each["expired"]) for each in found["groups"][0]["partitions"]] == [(8, 2), (0, 0)]
    assert found["groups"][0]["lag"] == 8
    shown = tank("lag", "audit", "--topic", "flights").stdout
    assert "2 expired unread" in shown
    assert "2013-01-01T05:17:00.000Z" in shown


def test_all_groups_have_a_line_each_and_the_greatest_lag_comes_first(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", [str(n) for n in range(10)], [str(n) for n in range(10)])
    committed(broker, "a-little", 11, 9)
    committed(broker, "b-much", 1)
    committed(broker, "c-none", 11, 11)
    broker.positions["d-nothing-committed"] = {}
    shown = lines(tank("lag").stdout)
    assert [line[:4] for line in shown] == [
        ["b-much", "1", "1", "10"], ["a-little", "1", "2", "2"], ["c-none", "1", "2", "0"],
    ]  # fmt: skip


def test_more_groups_than_shown_are_counted(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", ["a"])
    for number in range(5):
        committed(broker, f"g{number}", 1)
    ended = tank("lag", "--limit", "2")
    assert [line[0] for line in lines(ended.stdout)] == ["g0", "g1"]
    assert "3 more groups: --limit 5 shows all." in ended.stderr
    assert len(parsed(tank("lag", "-o", "json"))["groups"]) == 5


def test_a_group_whose_coordinator_does_not_answer_hides_no_other(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", ["a", "b"])
    committed(broker, "lost", 1)
    committed(broker, "there", 1)
    broker.silent_groups = {"lost"}
    shown = tank("lag").stdout
    assert "its coordinator does not answer" in shown.splitlines()[1]
    assert lines(shown)[1][:4] == ["there", "1", "1", "2"]
    lost, there = parsed(tank("lag", "-o", "json"))["groups"]
    assert (lost["group"], lost["partitions"]) == ("lost", [])
    assert "not answered" in lost["problem"]
    assert there["problem"] is None


def test_a_topic_that_is_gone_hides_no_other_partition(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", ["a", "b"])
    committed(broker, "audit", 1)
    broker.positions["audit"]["deleted", 0] = CommittedPosition(5, "", 0)
    gone, there = parsed(tank("lag", "audit", "-o", "json"))["groups"][0]["partitions"]
    assert (gone["topic"], gone["position"], gone["lag"], gone["high_water_mark"]) == (
        "deleted", 5, None, None,
    )  # fmt: skip
    assert there["lag"] == 2
    assert "the ends of 1 partition are unknown" in tank("lag").stdout


def test_the_ends_of_partitions_that_other_brokers_lead_are_asked_from_these(
    tank: Tank, broker: FakeBroker
) -> None:
    broker.fill("flights", ["a"], ["b", "c"])
    broker.topics["flights"].led_elsewhere = {1: 2}
    committed(broker, "audit", 1, 1)
    assert parsed(tank("lag", "-o", "json"))["groups"][0]["lag"] == 3
    assert ("await_ends", [("flights", 1)]) in broker.calls
    broker.hang = {2}
    assert parsed(tank("lag", "-o", "json"))["groups"][0]["lag"] == 1


def test_lag_of_a_group_that_is_not_there(tank: Tank, broker: FakeBroker) -> None:
    broker.positions["audit"] = {}
    ended = tank("lag", "audti")
    assert ended.exit_code == ExitCode.NOT_FOUND
    assert "Did you mean 'audit'?" in ended.stderr


def test_a_named_group_without_positions_says_so(tank: Tank, broker: FakeBroker) -> None:
    broker.positions["audit"] = {}
    assert "audit has committed no position." in tank("lag", "audit").stderr


def test_lag_without_groups_says_so(tank: Tank) -> None:
    assert "No consumer group" in tank("lag").stderr
    assert parsed(tank("lag", "-o", "json")) == {"groups": []}
