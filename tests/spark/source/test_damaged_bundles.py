"""A bundle that cannot be read, in the middle of a task's range."""

from contextlib import closing

import pytest

from pyspark_tank.errors import DataLossError
from pyspark_tank.offsets import OffsetRange
from pyspark_tank.options import parse_source_options
from tank_client.sync import Client
from tank_protos import bundle
from tank_protos.bundle.arrow import ArrowColumns
from tests.spark.conftest import NewTopic
from tests.support.processes.broker_process import BrokerProcess


class JustNumbers:
    """Instead of the columns of a query."""

    def batch(self, columns: ArrowColumns) -> list[int]:
        view = memoryview(columns.numbers).cast("B").cast("q")
        return view[columns.begin : columns.begin + columns.rows].tolist()


@pytest.mark.parametrize("fails", [True, False])
def test_it_ends_the_task_or_is_passed_over(new_topic: NewTopic, broker: BrokerProcess, fails: bool) -> None:
    from pyspark_tank.reader import RangeFetcher

    topic = new_topic()
    # It says three messages and has two, which only who unpacks it can see.
    lying = b"\x0d" + bundle.encode([b"x" * 20, b"y"], timestamps=1, codec=bundle.Codec.SNAPPY)[1:]
    good = bundle.encode([b"good", b"too"], timestamps=1)
    for content in (good, lying, good):
        topic.add_bundle(content)
    given = {"servers": broker.address, "subscribe": topic.name, "failOnDataLoss": str(fails).lower()}
    options = parse_source_options(given, streaming=False)
    found: list[int] = []

    def read() -> None:
        with (
            Client(broker.address) as client,
            closing(RangeFetcher(client, options, OffsetRange(topic.name, 0, 1, 8))) as fetcher,
        ):
            for numbers in fetcher.batches(JustNumbers()):  # type: ignore[arg-type]
                found.extend(numbers)

    if fails:
        with pytest.raises(DataLossError, match="the messages 3 to 5 cannot be read"):
            read()
        assert found == [1, 2]
    else:
        read()
        assert found == [1, 2, 6, 7]
