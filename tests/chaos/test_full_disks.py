"""A disk that is filled is met by the process on it: a fault that breaks nothing would show nothing."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_client import ClientSettings
from tank_client.sync import Client
from tests.chaos import faults
from tests.chaos.faults import Scene, fill_controller, fill_disk
from tests.chaos.load import TOPICS
from tests.chaos.members import Members, until
from tests.chaos.network import Loopback
from tests.chaos.run import SETTINGS, change_metadata, unrolled

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

SOON_OVER = ClientSettings(request_timeout_ms=2_000)
"""A controller that is full and alone takes no change, however often it is asked."""


@pytest.fixture
def members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Members]:
    """A controller and a broker, each on a small disk."""
    monkeypatch.setattr(faults, "FULL_S", 0.2)
    members = Members(tmp_path, Loopback())
    try:
        members.plan(1, 1)
        if len(members.mounts) < 2:
            pytest.skip("no file system can be mounted here")
        members.start_all()
        yield members
    finally:
        members.close(keep=False)


def test_brokers_and_controllers_meet_their_full_disks_and_go_on(members: Members) -> None:
    with Client(members.servers, SOON_OVER) as client, client.producer() as producer:
        for topic in TOPICS:
            client.admin.create_topic(topic, 1, 1, SETTINGS[topic])

        def write() -> None:
            producer.send("memory", random.randbytes(1_000))

        for _ in range(100):
            write()
        told: list[str] = []
        scene = Scene(members, random.Random(1), lambda: 1, told.append, lambda: change_metadata(client))
        fill_disk(scene, members.brokers, write)
        producer.send("memory", b"after it").result(30)
        fill_controller(scene)
        (controller,) = members.controllers
        until(lambda: not controller.met_full_disk(), "the disk has room again", 60)
        client.admin.create_topic("after-it", 1, 1)
        assert [line.partition(", ")[0] for line in told] == [
            "fill the disk of broker 1", "fill the disk of controller 1",
        ]  # fmt: skip
    assert unrolled(members.brokers) == []
