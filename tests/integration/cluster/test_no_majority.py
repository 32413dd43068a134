"""Two of three controllers are gone: what needs no decision of theirs goes on."""

from functools import partial
from pathlib import Path

import pytest

from tank_client import ClientSettings, RequestTimedOut
from tank_client.sync import Client
from tests.support.patience import patient
from tests.support.processes.cluster import running_cluster
from tests.support.processes.readiness import samples_of
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

FIRST_OF_BLOCKS = 1 << 50
PATIENCE_S = 60


def is_without_leader(http: str) -> bool:
    return samples_of(http)["tank_controllers_silence_seconds"] > 3


def test_new_producers_write_and_new_groups_read_while_no_controller_leads(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        cluster.tank("topic", "create", "t", "--partitions", "3")
        servers = [str(broker.addresses["tank"]) for broker in cluster.processes("broker")]
        seen: set[int] = set()

        def new_id(server: str) -> int:
            with Client([server]) as client:
                given = client.admin.init_producer().producer_id
            assert given not in seen
            seen.add(given)
            return given

        def holds_a_block(server: str) -> bool:
            return new_id(server) >= FIRST_OF_BLOCKS

        for server in servers:
            until(partial(holds_a_block, server), "it holds no block", PATIENCE_S)
        with Client(servers) as client:
            first = client.consumer(["t"], group="first", start="first", stop_at_end=True)
            with first as consumer:  # the first group of a cluster needs the controllers
                assert list(consumer) == []
        for controller in cluster.processes("controller")[:2]:
            controller.kill()
        for server in servers * 3:
            assert new_id(server) >= FIRST_OF_BLOCKS
        with Client(servers) as client:
            with client.producer() as producer:
                stored = [producer.send("t", b"%d" % number) for number in range(30)]
                producer.flush()
                assert all(each.result() for each in stored)
            with client.consumer(["t"], group="new", start="first", stop_at_end=True) as consumer:
                found = sorted(int(value or 0) for batch in consumer for value in batch.values)
            assert found == list(range(30))
        for broker in cluster.processes("broker"):
            until(partial(is_without_leader, str(broker.addresses["http"])), "it hears a leader still")
        patience = ClientSettings(request_timeout_ms=int(patient(5) * 1000))
        with (
            Client(servers, patience) as client,
            pytest.raises(RequestTimedOut, match="no controller leads, and"),
        ):
            client.admin.create_topic("u", 1)
