"""Servers by name, backoff, routes."""

from collections.abc import Callable

import pytest

from tank_client.backoff import wait_ms
from tank_client.errors import InvalidArgument
from tank_client.model import Address, parse_servers
from tank_client.routes import Routes
from tank_client.settings import ClientSettings, ConsumerSettings, OutOfBoundsPolicy, ProducerSettings


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
