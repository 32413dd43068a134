"""A leader that is cut off from the other brokers: the driver's side of a stream at scripted brokers, without
Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pyspark_tank.columns import layout_of
from pyspark_tank.options import parse_source_options
from pyspark_tank.stream_reader import TankStreamReader
from tank_protos.bundle import as_batch, encode
from tests.support.clients.scripted_pair import ROUTE, cut_off, two_brokers
from tests.support.waiting import run

READ = {"t": {"0": 4}}


def next_offset(reader: TankStreamReader) -> dict[str, Any]:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return reader.latestOffset(READ, ReadAllAvailable())


def next_offset_of_now(reader: TankStreamReader) -> dict[str, Any]:
    reader.prepareForTriggerAvailableNow()
    return next_offset(reader)


@pytest.mark.parametrize("ask", [next_offset, next_offset_of_now], ids=["stream", "now"])
def test_what_a_leader_that_is_cut_off_does_not_have_is_not_lost(
    ask: Callable[[TankStreamReader], dict[str, Any]],
) -> None:
    from pyspark.sql.types import BinaryType, StructType

    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers:
            cut_off(brokers)
            values = [b"second", b"third", b"fourth"]
            brokers[1].append(*ROUTE, as_batch(encode(values, timestamps=1)))
            given = {"servers": brokers[0].address, "subscribe": "t", "latestOffsetWaitMs": "0"}
            options = parse_source_options(given, streaming=True)
            schema = StructType().add("value", BinaryType())
            reader = TankStreamReader(options, schema, layout_of(schema, options))
            assert await asyncio.to_thread(ask, reader) == {"t": {"0": 5, "topicId": 7}}
            await asyncio.to_thread(reader.stop)

    run(scenario())
