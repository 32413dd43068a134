"""What administrators do with groups, over the wire."""

import pytest

from tank_client import (
    AtTime,
    Client,
    ClientSettings,
    ConsumerGroupState,
    GroupSummary,
    errors,
)
from tank_client.model import END, Ends
from tank_client.routing.position_reset import number_of, within
from tank_protos.bundle import as_batch, encode
from tests.support.clients.scripted_broker import ScriptedBroker
from tests.support.clients.scripted_sharing import ScriptedSharing
from tests.support.waiting import run

QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)


def sharing(broker: ScriptedBroker) -> ScriptedSharing:
    """The broker's groups: `busy` has one member, `idle` has positions."""
    broker.sharing = groups = ScriptedSharing({"t": 2})
    groups.group("busy").heartbeat("m", 0, ("t",), ())
    groups.group("idle").positions |= {("t", 0): 3, ("t", 1): 5}
    return groups


def test_groups_are_listed_with_their_states() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as broker:
            sharing(broker)
            async with Client(broker.address, QUICK) as client:
                assert await client.admin.groups() == [
                    GroupSummary("busy", "consumer", ConsumerGroupState.STABLE, 1),
                    GroupSummary("idle", "consumer", ConsumerGroupState.EMPTY, 0),
                ]
                assert await client.admin.list_groups() == ["busy", "idle"]

    run(scenario())


def test_a_group_is_described_with_its_members() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as broker:
            sharing(broker)
            async with Client(broker.address, QUICK) as client:
                busy, nowhere = await client.admin.describe_groups(["busy", "nowhere"])
                assert (busy.name, busy.state, busy.protocol) == (
                    "busy",
                    ConsumerGroupState.STABLE,
                    "uniform",
                )
                [member] = busy.members
                assert (member.member_id, member.host, member.subscribed) == ("m", "127.0.0.1", ("t",))
                assert member.assignment == (("t", 0), ("t", 1))
                assert (nowhere.state, nowhere.members) == (ConsumerGroupState.DEAD, ())
                assert await client.admin.describe_groups([]) == []

    run(scenario())


def test_only_groups_without_members_are_deleted() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as broker:
            groups = sharing(broker)
            async with Client(broker.address, QUICK) as client:
                with pytest.raises(errors.GroupNotEmpty, match="busy"):
                    await client.admin.delete_groups(["busy", "idle"])
                assert list(groups.groups) == ["busy"], "the other one is deleted all the same"
                with pytest.raises(errors.UnknownGroup, match="idle"):
                    await client.admin.delete_groups("idle")

    run(scenario())


def test_positions_are_deleted_where_no_member_reads() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as broker:
            groups = sharing(broker)
            async with Client(broker.address, QUICK) as client:
                await client.admin.delete_positions("idle", [("t", 1)])
                assert groups.group("idle").positions == {("t", 0): 3}
                with pytest.raises(errors.GroupNotEmpty, match="t/0"):
                    await client.admin.delete_positions("busy", [("t", 0)])
                with pytest.raises(errors.UnknownGroup):
                    await client.admin.delete_positions("nowhere", [("t", 0)])

    run(scenario())


def test_positions_are_reset_within_what_the_partitions_hold() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as broker:
            groups = sharing(broker)
            for _ in range(6):
                broker.append("t", 0, as_batch(encode([b"x"], timestamps=7)))
            async with Client(broker.address, QUICK) as client:
                reset = client.admin.reset_positions
                both = [("t", 0), ("t", 1)]
                assert await reset("idle", both, to="end", validate_only=True) == {("t", 0): 7, ("t", 1): 1}
                assert groups.group("idle").positions == {("t", 0): 3, ("t", 1): 5}, "nothing has moved"
                assert await reset("idle", both, to="first") == {("t", 0): 1, ("t", 1): 1}
                assert await reset("idle", both, to=4) == {("t", 0): 4, ("t", 1): 1}
                assert await reset("idle", both, by=2) == {("t", 0): 6, ("t", 1): 1}
                assert await reset("idle", [("t", 0)], by=-100) == {("t", 0): 1}
                assert await reset("idle", [("t", 0)], to=AtTime(5)) == {("t", 0): 1}
                assert groups.group("idle").positions == {("t", 0): 1, ("t", 1): 1}
                with pytest.raises(errors.NoPosition, match="t/0"):
                    await reset("new", [("t", 0)], by=1)
                with pytest.raises(errors.UnknownMember):
                    await reset("busy", [("t", 0)], to="first")

    run(scenario())


def test_an_older_broker_names_its_groups_and_cannot_do_more() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as client:
            for call in (client.admin.describe_groups(["g"]), client.admin.delete_groups(["g"])):
                with pytest.raises(errors.FeatureMissing, match="groups"):
                    await call

    run(scenario())


def test_numbers_of_a_reset() -> None:
    assert [number_of(to) for to in ("first", "end", 17)] == [0, END, 17]
    for wrong in ("committed", "frist", -1):
        with pytest.raises(errors.InvalidArgument, match="to="):
            number_of(wrong)
    ends = {("t", 0): Ends(10, 20), ("t", 1): Ends(0, 0)}
    for number, expected in ((0, 10), (15, 15), (END, 21)):
        assert within({("t", 0): number, ("t", 1): number}, ends) == {("t", 0): expected, ("t", 1): 1}
