"""What Iggy's clients sent, in Spark: values, headers of all fifteen kinds, and the times that they gave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tank_protos.generated.iggy import CreateStreamRequest, CreateTopicRequest
from tank_protos.iggy.eras import B3, V11, Era
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import HeaderKind
from tests.support.iggy.client_messages import ClientMessage
from tests.support.processes.iggy_broker import IggyBroker

pytestmark = pytest.mark.spark

SENT_US = 1_795_254_163_183_456


@pytest.fixture
def iggy_broker(tmp_path: Path) -> Iterator[IggyBroker]:
    with IggyBroker(tmp_path / "data") as broker:
        with broker.iggy() as client:
            client.tell(CreateStreamRequest(name="shop"))
            client.tell(CreateTopicRequest(stream=of_name("shop"), partitions_count=1, name="orders"))
        yield broker


def send(broker: IggyBroker, era: Era, *messages: ClientMessage) -> None:
    with broker.iggy(era) as client:
        client.send_messages("shop", "orders", list(messages))


def test_what_iggy_sent_has_its_headers_and_times(spark: SparkSession, iggy_broker: IggyBroker) -> None:
    headers = tuple((kind.name.encode(), 2, b"%d" % kind, int(kind)) for kind in HeaderKind)
    send(iggy_broker, B3, ClientMessage(b"plain", origin_us=SENT_US))
    send(iggy_broker, V11, ClientMessage(b"with headers", 4711, SENT_US + 1000, headers))
    frame = (
        spark.read.format("tank")
        .option("servers", iggy_broker.address)
        .option("subscribe", "shop.orders")
        .option("includeHeaders", "true")
        .load()
    )
    plain, full = sorted(frame.collect(), key=lambda row: row.offset)
    assert [(row.topic, row.partition, row.offset, row.key, bytes(row.value)) for row in (plain, full)] == [
        ("shop.orders", 0, 1, None, b"plain"),
        ("shop.orders", 0, 2, None, b"with headers"),
    ]
    assert [int(row.timestamp.timestamp() * 1000) for row in (plain, full)] == [
        SENT_US // 1000,
        SENT_US // 1000 + 1,
    ]
    assert [(each.key, bytes(each.value)) for each in full.headers if each.key != "iggy"] == [
        (kind.name, b"%d" % kind) for kind in HeaderKind
    ]
    assert frame.where("value = CAST('plain' AS BINARY)").count() == 1
