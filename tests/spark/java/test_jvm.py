"""A Spark that a test spoiled does not spoil the tests behind it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.spark.java import jvm

if TYPE_CHECKING:
    from tests.spark.java.jvm import SharedSpark

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_one_that_died_is_replaced(shared_spark: SharedSpark) -> None:
    from pyspark import SparkContext

    before = shared_spark.session()
    assert shared_spark.session() is before, "one that answers stays"
    gateway = SparkContext._gateway
    assert gateway is not None
    os.kill(gateway.proc.pid, signal.SIGKILL)
    after = shared_spark.session()
    assert after is not before
    assert after.range(3).count() == 3


@pytest.mark.long
def test_one_that_stands_still_is_replaced(
    shared_spark: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark import SparkContext

    before = shared_spark.session()
    monkeypatch.setattr(jvm, "ANSWER_S", 1.0)
    gateway = SparkContext._gateway
    assert gateway is not None
    os.kill(gateway.proc.pid, signal.SIGSTOP)
    after = shared_spark.session()
    assert after is not before
    assert after.range(3).count() == 3
