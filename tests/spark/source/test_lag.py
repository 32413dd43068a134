"""`tank lag` beside a query that has a `kafka.group.id`: what an operator sees of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.topics import run_to_end, write_stream
from tests.support.patience import patient
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import NewTopic

pytestmark = pytest.mark.spark


def lag(servers: str, group: str) -> dict[str, Any]:
    """What the command prints of the group."""
    asked = [sys.executable, "-m", "tank_cli.main", "lag", group, "--servers", servers, "--output", "json"]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=patient(60), check=False)
    assert ran.returncode == 0, ran.stderr
    shown: list[dict[str, Any]] = json.loads(ran.stdout)["groups"]
    (found,) = [each for each in shown if each["group"] == group]
    return found


def test_a_query_that_has_read_all_is_no_message_behind(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(partitions=2), new_topic()
    group = f"{source.name}-query"
    source.add_numbers(0, 30)
    source.add_numbers(30, 50, partition=1)
    options = {"kafka.group.id": group, "maxOffsetsPerTrigger": 20}
    run_to_end(write_stream(source.stream(spark, **options), sink, checkpoint))
    assert sink.numbers() == list(range(50))
    assert lag(source.servers, group)["lag"] == 0, "the last of its batches counts, too"

    source.add_numbers(50, 57)
    assert lag(source.servers, group)["lag"] == 7, "what came after it waits"

    query = write_stream(source.stream(spark, **options), sink, checkpoint).start()
    try:
        until(lambda: lag(source.servers, group)["lag"] == 0, "the query that runs is seen", guard_s=120)
    finally:
        query.stop()
    assert sink.numbers() == list(range(57))
