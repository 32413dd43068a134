"""How long a stock client waits when the leader of its partition is killed under it."""

import json
import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from tank_client.sync import Client
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster

AFTER_S: Final = 10.0
"""The client's time after the kill: more than an election takes by far."""
END_S: Final = 60.0
LOOK_S: Final = 0.02


class Waits(NamedTuple):
    """Seconds from the kill on."""

    elected: float
    """Until brokers name another leader."""
    acknowledged: float
    """Until a message is acknowledged, from the kill on."""


@dataclass(frozen=True, slots=True)
class LeaderKill:
    """What happened. Times are those of `time.time`."""

    killed: float
    elected: float
    """When brokers named another leader."""
    told: list[tuple[float, float]]
    """When the client had sent each message that was acknowledged, and when it was."""

    def waits(self, acknowledged: list[float]) -> Waits:
        """The times from the kill on. acknowledged: when those messages were that count. Raises RuntimeError
        when the client did not send before the kill, or did not go on."""
        if not any(sent < self.killed for sent, _ in self.told):
            raise RuntimeError("nothing was acknowledged before the kill")
        if not acknowledged:
            raise RuntimeError(f"nothing was acknowledged in the {AFTER_S:.0f} s after the kill")
        return Waits(self.elected - self.killed, min(acknowledged) - self.killed)


def kill_leader(
    cluster: LocalCluster, topic: str, leader: int, sender: "subprocess.Popen[str]"
) -> LeaderKill:
    """Kills the broker that leads the topic's one partition, waits for another leader, and for the client's
    end: it prints a line of JSON for each acknowledged message."""
    brokers = cluster.processes("broker")
    others = [broker for broker in brokers if broker.number != leader]
    (victim,) = [broker for broker in brokers if broker.number == leader]
    with Client(",".join(str(broker.addresses["tank"]) for broker in others)) as client:
        client.admin.describe_topics([topic])
        killed = time.time()
        victim.kill()
        while client.admin.describe_topics([topic])[0].partitions[0].leader in (leader, None):
            time.sleep(LOOK_S)
        elected = time.time()
    lines = sender.communicate(timeout=patient(END_S))[0].splitlines()
    return LeaderKill(killed, elected, [json.loads(line) for line in lines])


def show(kind: str, name: str, found: list[Waits], *, as_json: bool) -> None:
    """Prints the waits of one client. kind: what JSON calls it."""
    if as_json:
        times = {field: [getattr(each, field) for each in found] for field in Waits._fields}
        print(json.dumps({kind: name, **times}), flush=True)
    else:
        print(name)
        print(f"  another leader after {_told([each.elected for each in found])}")
        print(f"  acknowledged after {_told([each.acknowledged for each in found])}", flush=True)


def _told(found: list[float]) -> str:
    return f"median {statistics.median(found):.2f} s ({', '.join(f'{each:.2f}' for each in found)})"
