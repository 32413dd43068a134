"""Servers by name, backoff, routes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tank_client.errors import InvalidArgument
from tank_client.model import Address, Features, parse_servers
from tank_client.routing.backoff import wait_ms
from tank_client.routing.routes import Routes
from tank_client.settings import (
    AtTime,
    ClientSettings,
    ConsumerSettings,
    OutOfBoundsPolicy,
    ProducerSettings,
)
from tank_client.wire.topic_operations import create_topic_plainly
from tank_protos.generated.tank import CreateTopicRequest


def test_servers_are_a_list_with_ports() -> None:
    assert parse_servers("a:1, b,[::1]:3,[::1],a:1") == [
        Address("a", 1),
        Address("b", 11011),
        Address("::1", 3),
        Address("::1", 11011),
    ]
    assert str(Address("::1", 3)) == "[::1]:3"


@pytest.mark.parametrize(
    "text", ["", ",", ":1", "a:0", "a:65536", "a:x", "[::1", "[::1]x", "http://a:1", "a:1/x"]
)
def test_what_is_no_server_is_said(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_servers(text)


def test_waits_double_up_to_the_bound_and_are_spread() -> None:
    longest = [wait_ms(failures, 50, 2000, lambda: 1.0) for failures in range(1, 9)]
    assert longest == [50, 100, 200, 400, 800, 1600, 2000, 2000]
    assert [wait_ms(failures, 50, 2000, lambda: 0.0) for failures in (1, 9)] == [25, 25]
    assert wait_ms(10**9, 50, 2000, lambda: 0.5) == 1000


def test_a_failed_broker_leads_nothing_and_the_next_one_is_asked() -> None:
    routes = Routes([Address("a", 1), Address("b", 1)])
    routes.learn(("t", 0), Address("a", 1))
    routes.learn(("t", 1), Address("c", 1))
    assert routes.target(None) == Address("a", 1)
    routes.failed(Address("a", 1))
    assert routes.target(None) == routes.target(("t", 0)) == Address("b", 1)
    assert routes.target(("t", 1)) == Address("c", 1)
    routes.failed(Address("c", 1))
    assert routes.target(("t", 1)) == Address("b", 1)


def test_the_server_that_named_a_leader_that_is_gone_is_left() -> None:
    """It may not have heard of the next one, and would name the old one again."""
    routes = Routes([Address("behind", 1), Address("a", 1), Address("b", 1)])
    routes.learn(("t", 0), Address("a", 1))
    routes.failed(Address("a", 1))
    assert routes.target(("t", 0)) == Address("b", 1)


def test_an_older_word_about_a_leader_is_ignored() -> None:
    routes = Routes([Address("a", 1)])
    route = ("t", 0)
    routes.learn(route, Address("b", 1), (7, 2))
    routes.learn(route, Address("a", 1), (7, 1))
    assert routes.target(route) == Address("b", 1)
    routes.learn(route, Address("c", 1), (7, 3))
    assert routes.target(route) == Address("c", 1)
    routes.learn(route, Address("d", 1), (8, 0))  # made anew
    assert routes.target(route) == Address("d", 1)
    routes.failed(Address("d", 1))
    routes.learn(route, Address("b", 1), (7, 2))  # nothing is held against what it was before
    assert routes.target(route) == Address("b", 1)


def test_brokers_are_known_behind_the_servers_that_were_named() -> None:
    named, found = Address("a", 1), [Address("b", number) for number in range(100)]
    routes = Routes([named])
    routes.know([*found, named])
    assert routes.known_servers == [named, *found[: Routes.MAX_BROKERS]]
    assert routes.servers == [named]
    routes.failed(named)
    assert routes.target(None) == found[0]
    routes.know(found[1:3])
    assert routes.known_servers == [named, *found[1:3]]
    assert routes.target(None) == named  # the one that was asked is no broker any more


def test_others_are_asked_in_turn_and_those_that_failed_last() -> None:
    a, b, c, d = (Address(name, 1) for name in "abcd")
    routes = Routes([a, b, c, d])
    assert [routes.other(a) for _ in range(4)] == [b, c, d, b]
    routes.failed(c)
    assert [routes.other(a) for _ in range(3)] == [d, b, d]
    routes.answered(c)
    assert [routes.other(a) for _ in range(3)] == [b, c, d]
    assert Routes([a]).other(a) == a


def test_routes_are_bounded() -> None:
    routes = Routes([Address("a", 1)])
    for partition in range(Routes.MAX_ROUTES + 1):
        routes.learn(("t", partition), Address("b", 1))
    assert routes.target(("t", Routes.MAX_ROUTES)) == Address("b", 1)
    assert routes.target(("t", 0)) == Address("a", 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ConsumerSettings(fetch_bytes=0),
        lambda: ConsumerSettings(max_requests=0),
        lambda: ConsumerSettings(max_wait_ms=-1),
        lambda: ConsumerSettings(out_of_bounds="oldest"),  # type: ignore[arg-type]
        lambda: ProducerSettings(linger_ms=-1),
        lambda: ProducerSettings(required_acks="all"),  # type: ignore[arg-type]
        lambda: ProducerSettings(required_acks=-1),
        lambda: ProducerSettings(max_in_flight_per_partition=6),
        lambda: ProducerSettings(batch_bytes=2, buffer_bytes=1),
        lambda: ClientSettings(max_connections=0),
    ],
)
def test_settings_that_would_stop_everything_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument, match=r"must be|use 'earliest'"):
        make()


@pytest.mark.parametrize("policy", list(OutOfBoundsPolicy))
def test_a_policy_may_be_given_by_its_name_as_errors_say(policy: OutOfBoundsPolicy) -> None:
    assert ConsumerSettings(out_of_bounds=policy.value).out_of_bounds is policy  # type: ignore[arg-type]


def test_a_time_is_milliseconds_or_a_datetime_with_a_zone() -> None:
    there = datetime(1970, 1, 1, 2, 0, 3, 4000, timezone(timedelta(hours=2)))
    assert AtTime(there) == AtTime(3004)
    assert AtTime(there + timedelta(microseconds=1)) == AtTime(3005), "no message of before it is read"
    assert AtTime(datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC)) == AtTime(0)
    with pytest.raises(InvalidArgument, match="no time zone"):
        AtTime(datetime(1970, 1, 1))


def test_settings_travel_as_text() -> None:
    operation = create_topic_plainly("t", 1, {"a": 3600, "b": True, "c": 0.5, "d": "7d"})
    request = operation.build(Features(version=400))
    assert isinstance(request, CreateTopicRequest)
    assert bytes(request.config) == b"a=3600\nb=true\nc=0.5\nd=7d\n"
