"""A cluster with a leading controller that does its tasks, for tests that let time pass."""

from collections import Counter
from collections.abc import Sequence

from tank_controller import limits
from tank_controller.leader.log_ends import LogEndQuery
from tank_controller.leader.scaling import Scaling
from tank_controller.leader.tasks import LeaderTasks, Work
from tank_controller.state.model import PartitionState
from tank_protos.generated import control_pb2 as pb
from tests.controller.cluster_for_tests import Cluster

STEP_MS = limits.LEADER_TASKS_EVERY_MS


class Governed:
    """A cluster whose leaders take in who can, and a controller that does the leader's tasks."""

    def __init__(self, cluster: Cluster, *, replicate: bool = True) -> None:
        self.cluster = cluster
        self.scaling = Scaling()
        self.tasks = LeaderTasks(self.scaling)
        self.now_ms = 0
        self.kinds: Counter[str] = Counter()
        """The commands that the controller proposed."""
        self.most_moving = 0
        self.asked: dict[int, LogEndQuery] = {}
        """By broker: what it was asked last."""
        self._replicate = replicate

    def step(self) -> Work:
        """Some time passes."""
        self.now_ms += STEP_MS
        work = self.tasks.tick(self.cluster.state, self.now_ms)
        for command in work.commands:
            self.kinds[command.WhichOneof("command") or ""] += 1
            self.cluster.do(command)
        self.asked.update({ask.broker_id: ask for ask in work.asks})
        self.most_moving = max(self.most_moving, len(self.cluster.state.derived.moving))
        if self._replicate:
            self.catch_up()
        return work

    def tell(self, broker_id: int, ends: Sequence[pb.LogEnd], ask: LogEndQuery | None = None) -> None:
        """A broker's answer to an ask, the last that it was sent."""
        ask = ask or self.asked[broker_id]
        answer = pb.LogEnds(ends=ends, question=ask.question)
        self.tasks.ends(broker_id, ask.broker_epoch, answer, self.now_ms)

    def run(self, seconds: int) -> None:
        for _ in range(seconds * 1000 // STEP_MS):
            self.step()

    def rest(self, at_most_s: int = 600) -> None:
        """Until nothing is done any more for a while."""
        quiet = 0
        for _ in range(at_most_s * 1000 // STEP_MS):
            quiet = 0 if self.step().commands else quiet + 1
            if quiet == 20:
                return
        raise AssertionError("it does not come to rest")

    def catch_up(self) -> None:
        """Leaders take in every replica whose broker lives and stays."""
        for topic_id, topic in self.cluster.state.topics.items():
            for number, partition in enumerate(topic.partitions):
                brokers = self.cluster.state.brokers
                able = {
                    each for each in partition.replicas if not (brokers[each].fenced or brokers[each].leaves)
                }
                members = able | set(partition.in_sync)
                if partition.leader and members != set(partition.in_sync):
                    self.cluster.set_in_sync(topic_id, *members, number=number)

    def moved(self) -> int:
        """How many moves were proposed since this was asked last."""
        return self.kinds.pop("reassign", 0)

    def partitions(self) -> list[PartitionState]:
        return [partition for topic in self.cluster.state.topics.values() for partition in topic.partitions]

    def held(self) -> dict[int, int]:
        return {each: len(self.cluster.state.held_by(each)) for each in self.cluster.state.brokers}

    def led(self) -> dict[int, int]:
        return {each: self.cluster.state.derived.led[each] for each in self.cluster.state.brokers}
