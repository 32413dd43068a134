"""Real Kafka 4.1 as a process: one node that is broker and controller, on loopback."""

import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.kafka_clients.libraries import Jar, install_jars
from tests.support.patience import patient
from tests.support.processes.ports import free_port

VERSION: Final = "4.1.2"
JARS: Final[tuple[Jar, ...]] = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
START_TIMEOUT_S: Final = patient(120.0)
"""The longest that it may take to start: some 6 s of a processor's time."""
CLUSTER_ID: Final = "AAAAAAAAQACAAAAAAAAAAQ"


def install(folder: Path) -> None:
    """Puts the jars of the broker into a folder. Raises NotInstalledError."""
    install_jars(folder / "kafka", JARS, alone=False)


class KafkaServer:
    """Runs as long as its `with` block. Its port and its data stay the same over restarts."""

    def __init__(self, folder: Path, data: Path, **settings: object) -> None:
        """Args: folder: where the libraries are installed. data: an empty folder, or none. settings: of the
        broker, with `_` for each dot."""
        self.port = free_port()
        self._controller_port = free_port()
        self._data = data
        self._jars = f"{folder / 'kafka/libs'}/*"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def _properties(self) -> str:
        lines: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self._data / "log",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 5,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
        }
        lines |= {name.replace("_", "."): value for name, value in self._settings.items()}
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _java(self, *arguments: str) -> list[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", quiet, "-cp", self._jars, *arguments]

    def start(self) -> Self:
        """Returns when it takes connections. Raises RuntimeError."""
        properties = self._data / "server.properties"
        if not properties.exists():
            self._data.mkdir(parents=True, exist_ok=True)
            properties.write_text(self._properties())
            command = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
            done = subprocess.run(command, capture_output=True, timeout=START_TIMEOUT_S, check=False)
            if done.returncode:
                raise RuntimeError(f"Kafka's folder can't be made: {done.stderr[-500:]!r}")
        with (self._data / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(properties)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._takes_connections():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka does not start: {(self._data / 'output').read_bytes()[-500:]!r}")
            time.sleep(0.1)
        return self

    def _takes_connections(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """An orderly stop, or the other one where that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(patient(30))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self) -> None:
        """An orderly stop, then a start."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
