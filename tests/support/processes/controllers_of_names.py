"""A story for namespaces of its own: all controllers come back at other addresses, one after the other, as
pods do; then the name service goes away, one is cut off until all its lines are broken, the leader is killed,
and another one leads.
`python -m tests.support.processes.controllers_of_names MOOD FOLDER`."""

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from tests.support.processes.name_service import ZONE, Mood, NameService, use
from tests.support.processes.readiness import facts_of
from tests.support.waiting import until

PORT, HTTP_PORT = 11111, 11112
NUMBERS = (1, 2, 3)
CUT_OFF_S = 6.0
"""Twice the time after which a controller gives a silent line up."""


class Controllers:
    """Three, each with an address and a name."""

    def __init__(self, folder: Path, names: NameService) -> None:
        self._folder = folder
        self._names = names
        self._cluster = ",".join(f"{number}=c{number}.{ZONE}:{PORT}" for number in NUMBERS)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._at: dict[int, str] = {}

    def start(self, number: int, address: str) -> None:
        """Has it begin there, under its name."""
        self._at[number] = self._names.addresses[f"c{number}.{ZONE}"] = address
        listen, http = f"{address}:{PORT}", f"{address}:{HTTP_PORT}"
        command = ["tank_controller", "--id", str(number), "--cluster", self._cluster, "--listen", listen]
        with open(self._folder / f"c{number}.log", "ab") as log:
            self.processes[number] = subprocess.Popen(
                [sys.executable, "-m", *command, "--http", http, "--data", str(self._folder / f"c{number}")],
                stdout=log,
                stderr=log,
            )

    def await_ready(self) -> None:
        for number in self.processes:
            until(partial(self._is, number, "ready"), f"controller {number} is not ready", 60)

    def cut_off(self, number: int) -> None:
        """Until the others have given all connections up."""
        route = ["blackhole", f"{self._at[number]}/32", "table", "local"]
        subprocess.run(["ip", "route", "add", *route], check=True)
        time.sleep(CUT_OFF_S)
        subprocess.run(["ip", "route", "del", *route], check=True)

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes.pop(number).wait()

    def _is(self, number: int, what: str) -> bool:
        return bool(facts_of(f"{self._at[number]}:{HTTP_PORT}").get(what))

    def leader(self) -> int:
        """Who of those that run leads; waits for one."""
        until(lambda: any(self._is(number, "leads") for number in self.processes), "no controller leads", 60)
        return next(number for number in self.processes if self._is(number, "leads"))


def play(controllers: Controllers, names: NameService, mood: Mood) -> None:
    """The story; raises when nobody leads."""
    for number in NUMBERS:
        controllers.start(number, f"127.0.0.{number}")
    controllers.await_ready()
    for number in reversed(NUMBERS):
        controllers.kill(number)
        controllers.start(number, f"127.0.0.{10 + number}")
        controllers.await_ready()
    leader = controllers.leader()
    names.mood = mood
    controllers.cut_off(next(number for number in NUMBERS if number != leader))
    leader = controllers.leader()
    controllers.kill(leader)
    assert controllers.leader() != leader
    print("another one leads")


def main() -> None:
    """Exit code 0: it went as it should."""
    mood, folder = Mood(sys.argv[1]), Path(sys.argv[2])
    names = use(folder)
    controllers = Controllers(folder, names)
    try:
        play(controllers, names, mood)
    finally:
        for process in controllers.processes.values():
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
