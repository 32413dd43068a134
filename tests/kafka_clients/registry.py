"""A schema registry that keeps its schemas in a topic, Apicurio's: what is registered at one is read at the
other, over the death of brokers and of a registry."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self
from urllib.error import HTTPError

from tests.kafka_clients.java_server import JavaServer, await_replicas, until
from tests.kafka_clients.libraries import Jar, install_archive, java_since
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster

VERSION: Final = "3.3.3"
ARCHIVE: Final[Jar] = ("io.apicurio", "apicurio-registry-app", VERSION)
JAVA_RELEASE: Final = 21
"""The oldest that it runs on."""
STEPS: Final = 4
START_S: Final = patient(180.0)
"""The longest that two registries may take to start on a busy machine: some 15 s of a processor's time
each."""
WAIT_S: Final = patient(120.0)
"""The longest that a schema may take, over a death."""
_SCHEMA_PATH: Final = "apis/ccompat/v7"


def install(folder: Path) -> None:
    """Installs the registry into a folder. Raises NotInstalledError."""
    java_since(JAVA_RELEASE)
    install_archive(folder / "registry", ARCHIVE, "tar.gz:all")


class Registry(JavaServer):
    """A registry's process."""

    def __init__(self, folder: Path, work: Path, number: int, servers: str) -> None:
        """Args: folder: where it is installed. work: for its output."""
        super().__init__(work / f"registry-{number}.output")
        jar = str(folder / "registry/quarkus-run.jar")
        self._command = [java_since(JAVA_RELEASE), "-Xmx384m", "-XX:TieredStopAtLevel=1", "-jar", jar]
        self._environment = os.environ | {
            "APICURIO_STORAGE_KIND": "kafkasql",
            "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": servers,
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self.port),
            "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
            "QUARKUS_MANAGEMENT_PORT": "0",
            "QUARKUS_LOG_LEVEL": "WARN",
        }

    def __enter__(self) -> Self:
        self.start(self._command, self._environment)
        return self

    @property
    def is_ready(self) -> bool:
        """Whether it serves. Raises OSError."""
        return isinstance(self.asks(f"{_SCHEMA_PATH}/subjects"), list)

    def registers(self, subject: str) -> int:
        """Registers a schema; returns its id. Raises OSError."""
        path = f"{_SCHEMA_PATH}/subjects/{subject}/versions"
        return int(self.asks(path, {"schema": schema_of(subject)}, method="POST")["id"])

    def reads(self, number: int) -> str:
        """The schema with this id; empty: there is none yet. Raises OSError."""
        try:
            return str(self.asks(f"{_SCHEMA_PATH}/schemas/ids/{number}")["schema"])
        except HTTPError as error:
            if error.code == 404:
                return ""
            raise


def schema_of(subject: str) -> str:
    """The schema that is registered under this name."""
    return f'{{"type":"record","name":"{subject}","fields":[{{"name":"id","type":"long"}}]}}'


@dataclass(slots=True)
class RegistryTests:
    """The steps, in their order. Brokers that are killed are started again."""

    folder: Path
    """Where the registry is installed."""
    work: Path
    """For files of the steps: empty."""
    servers: str
    cluster: LocalCluster
    _numbers: dict[str, int] = field(default_factory=dict)
    """The ids of all schemas that are registered, by name."""
    _registries: list[Registry] = field(default_factory=list)

    def steps(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """What each is about, and what it does: it returns what is wrong. Raises RuntimeError."""
        self.work.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:

            def add(number: int) -> Registry:
                made = stack.enter_context(Registry(self.folder, self.work, number, self.servers))
                self._registries.append(made)
                return made

            def start() -> str:
                # One behind the other: of two that make their topics at the same time, one ends.
                for number in range(2):
                    add(number)
                    until(self._registries, lambda: self._registries[-1].is_ready, START_S)
                return ""

            def over_brokers() -> str:
                for broker in self.cluster.processes("broker"):
                    broker.kill()
                    problem = self._registered(f"broker{broker.number}")
                    self.cluster.up()
                    if problem:
                        return f"broker {broker.number} was killed: {problem}"
                    await_replicas(self.cluster, WAIT_S)
                return ""

            def over_a_registry() -> str:
                self._registries.pop(0).kill()
                third = add(2)
                until(self._registries, lambda: third.is_ready, START_S)
                return self._registered("third")

            yield "two registries start", start
            yield "a schema that is registered at one is read at the other", lambda: self._registered("first")
            yield "each broker is killed once: schemas are registered, and all are read", over_brokers
            yield "a registry is killed: one that starts afterwards has all schemas", over_a_registry

    def _registered(self, subject: str) -> str:
        """Registers another schema at the first registry, and waits until all registries have all."""

        def is_registered() -> bool:
            self._numbers[subject] = self._registries[0].registers(subject)
            return True

        until(self._registries, is_registered, WAIT_S)

        def have_all() -> bool:
            return all(
                each.reads(number) == schema_of(name)
                for each in self._registries
                for name, number in self._numbers.items()
            )

        until(self._registries, have_all, WAIT_S)
        if len(set(self._numbers.values())) != len(self._numbers):
            return f"two schemas have the same id: {self._numbers}"
        return ""
