"""A Spark Connect server as a process of its own, as a cluster would run it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.patience import patient
from tests.support.processes.ports import free_port

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_TIMEOUT_S = patient(120)
STOP_TIMEOUT_S = patient(30)


class ConnectServer:
    """Listens on loopback at `remote` for as long as the block lasts; it runs tasks on two cores."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "output"
        self._port = free_port()
        self.remote = f"sc://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        import pyspark

        from pyspark_tank.java_home import use_java

        self._folder.mkdir(parents=True, exist_ok=True)
        home = Path(pyspark.__file__).parent
        environment = dict(os.environ, SPARK_HOME=str(home))
        use_java(environment=environment)
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": self._port,
            "spark.driver.memory": "1g",
            "spark.local.dir": self._folder / "local",
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.warehouse.dir": self._folder / "warehouse",
            "spark.ui.enabled": "false",
        }
        command = [str(home / "bin" / "spark-submit"), "--class", SERVER, "--master", "local[2]"]
        command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "spark-internal"],
                cwd=self._folder,  # where it would put its catalog
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the server and the Python workers that it started."""
        group = self._process.pid
        if self._process.poll() is None:
            os.killpg(group, signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(group, signal.SIGKILL)
            self._process.wait()

    def output(self) -> str:
        """What it has printed."""
        return self._log.read_text(errors="replace")

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, f"the server ended:\n{self.output()[-3000:]}"
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=patient(1)).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(
            f"the server does not listen after {START_TIMEOUT_S} s:\n{self.output()[-3000:]}"
        )
