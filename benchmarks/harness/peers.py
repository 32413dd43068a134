"""Figures of other systems, which the tables show beside ours.

They were recorded once on a machine with two shared cores, with everything on loopback: three nodes, three
replicas, every write acknowledged by all, one pipelined producer in Go with each client's own batching. The
systems were Kafka 4.1 (KRaft), NATS 2.15 with JetStream, RabbitMQ 3.10 streams, and the C++ TANK with a
stand-in for Consul.

Processor time and failover are solid, rates and medians good to a fifth, p99 to a factor of two.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Peers:
    """One figure of several systems."""

    figures: Mapping[str, float]
    """By the system's name."""
    unit: str
    digits: int = 2
    most_is_best: bool = False

    def beside(self, ours: float) -> str:
        """The others' figures, the best first, and how far ours is from the best of them: "Kafka 3.2, NATS 11
        µs; ours is 6.3 × better"."""
        names = sorted(self.figures, key=self.figures.__getitem__, reverse=self.most_is_best)
        told = ", ".join(f"{name} {self.figures[name]:,.{self.digits}f}" for name in names)
        best = self.figures[names[0]]
        if not ours or not best:
            return f"{told} {self.unit}".rstrip()
        times = ours / best if self.most_is_best else best / ours
        judged = f"ours is {times:.1f} × better" if times >= 1 else f"{names[0]} is {1 / times:.1f} × better"
        return f"{told} {self.unit}; {judged}"


CPU_US = {
    100: Peers({"Kafka": 3.2, "RabbitMQ": 5.4, "NATS": 11.0}, "µs", 1),
    1024: Peers({"RabbitMQ": 15.5, "Kafka": 21.6, "NATS": 23.6}, "µs", 1),
}
"""Processor time of all nodes a message, by bytes of a message."""
RATES = {
    100: Peers({"Kafka": 0.407, "RabbitMQ": 0.244, "NATS": 0.126}, "M/s", most_is_best=True),
    1024: Peers({"RabbitMQ": 0.087, "NATS": 0.067, "Kafka": 0.063}, "M/s", 3, most_is_best=True),
}
"""Messages a second, by bytes of a message."""
TIMES_ONE_NODE = {
    100: Peers({"Kafka": 3.2 / 0.62}, "×", 1),
}
"""Processor time of three nodes a message, by that of one alone."""
LATENCY_P50 = {
    1_000: Peers({"NATS": 0.46, "Kafka": 0.54, "RabbitMQ": 1.7}, "ms"),
    10_000: Peers({"NATS": 0.77, "Kafka": 2.6, "RabbitMQ": 15}, "ms"),
}
LATENCY_P99 = {
    1_000: Peers({"NATS": 1.8, "RabbitMQ": 6.6, "Kafka": 13}, "ms", 1),
    10_000: Peers({"NATS": 5.9, "Kafka": 38, "RabbitMQ": 575}, "ms", 1),
}
"""By messages a second, of 100 bytes. Kafka's figures are each the better of two settings of its linger."""
KILLED_S = Peers(
    {"Kafka, session 2 s": 2.4, "RabbitMQ": 5.25, "NATS": 5.9, "Kafka": 8.7, "C++ TANK": 11.4}, "s", 1
)
"""From `kill -9` of the leader to the next acknowledged write, at 200 a second: medians of 4 or 5 runs, and
one run of the C++ TANK."""
LOST = Peers({"Kafka": 0, "NATS": 0, "RabbitMQ": 0}, "", 0)
"""Messages acknowledged before a kill, and lost after it."""
OUT_OF_ORDER = Peers({"Kafka": 0, "RabbitMQ": 0, "NATS": 3_164}, "", 0)
IDLE_MIB = Peers({"NATS": 87, "RabbitMQ": 134, "Kafka": 433}, "MiB", 0)
AFTER_MIB = Peers({"NATS": 63, "RabbitMQ": 131, "Kafka": 1_186}, "MiB", 0)
"""Memory of a node, with broker and controller in one process: before the runs, and after them."""
