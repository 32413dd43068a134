"""The Spark that all tests share, and another one where a test spoiled it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.patience import patient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ATTEMPTS = 3
ANSWER_S = patient(60)
"""What a sound Spark takes at most for a query without data."""


class SharedSpark:
    """Real Spark on two cores. The source is found by its name: no test registers it.

    A timeout that ends a test amidst a call into the JVM leaves that connection with an answer unread: each
    later call gets the answer of another one. A Spark that does not answer soundly is ended, and a new one
    started.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._session: SparkSession | None = None
        self._started = 0

    def session(self) -> SparkSession:
        """A Spark that answers."""
        if self._session is not None and not self._answers(self._session):
            self.end()
        if self._session is None:
            self._session = self._start()
        return self._session

    def stop(self) -> None:
        """Stops it in order."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def end(self) -> None:
        """Kills the JVM, and lets pyspark forget it."""
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        gateway = SparkContext._gateway
        if gateway is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(gateway.proc.pid, signal.SIGKILL)
            gateway.proc.wait()
            with contextlib.suppress(Exception):  # py4j says in many ways that the JVM is gone
                gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        self._session = None

    def _answers(self, session: SparkSession) -> bool:
        found: list[object] = []

        def ask() -> None:
            with contextlib.suppress(Exception):  # whatever it is: such a Spark is spoiled
                found.append(session.range(7).count())

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(ANSWER_S)
        return found == [7]

    def _start(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from pyspark_tank.java_home import use_java

        use_java()
        self._started += 1
        folder = self._folder / str(self._started)
        session = (
            SparkSession.builder.master(f"local[2,{TASK_ATTEMPTS}]")
            .appName("tests")
            .config("spark.driver.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        return session
