"""How many brokers are wanted, and what follows: who is drained, who goes, who may stop. Pure.

Brokers are numbered from 1. Where N are wanted, those above N leave, the highest first, as long as enough
are left for every topic's replication factor; the others are refused, and stay members with all they hold.
Who is to leave is in the log (`BrokerState.scaled_down`), so a new leader goes on. Nothing follows from a
broker that is merely gone: a killed process, a lost machine.

It also says when a process may be stopped: one that leaves, when it holds nothing; any other, when no
partition that could do without it falls below `min.insync.replicas`. Without a wanted number that is all, and
who leaves is who did when there was one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from tank_controller.pods import FIRST_BROKER, shown
from tank_controller.state.keys import partition_of
from tank_controller.state.model import BrokerState
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb

GRANT_MS = 15_000
"""A process that may stop counts as stopped for so long, until the state shows it: else two that ask at a
time would both be told that the other is there."""
YOUNG_MS = 5_000
"""So long after it began to lead, a controller takes it that the one before has let somebody stop: who may
stop is stopped at once, and says so in the state."""
TELL_AGAIN_MS = 15_000
"""What changes all the time, such as how much a broker still holds, is told so often."""
TELL_SAME_MS = 300_000
"""And what stays as it is, so often: Kubernetes forgets events after an hour."""
MAX_NEWS = 200
"""That wait to be told; the oldest are dropped."""
MAX_TOLD = 2_000
"""Brokers and pods of which it is remembered what was told last."""


class Standing(Enum):
    """A broker's, by how many are wanted."""

    STAYS = "stays"
    LEAVES = "leaves"
    REFUSED = "refused"
    """It is one too many, but too few would be left."""


class Reason(StrEnum):
    """What an event is about, as Kubernetes' events name it."""

    SCALING_DOWN = "ScalingDown"
    SCALED_DOWN = "ScaledDown"
    TAKEN_BACK = "ScaleDownTakenBack"
    REFUSED = "ScaleDownRefused"
    DATA_LEFT = "StoppedWithData"
    DRAINING = "Draining"
    HOLDS_ON = "WaitsForReplicas"
    MAY_STOP = "MayStop"
    CONTROLLER = "ControllersNotAsWanted"
    FULL = "VolumeFull"

    @property
    def is_warning(self) -> bool:
        """Whether somebody should look."""
        return self in (
            Reason.REFUSED, Reason.DATA_LEFT, Reason.HOLDS_ON, Reason.CONTROLLER, Reason.FULL,
        )  # fmt: skip


@dataclass(slots=True, frozen=True)
class Pod:
    """Where a broker runs."""

    name: str
    uid: str


@dataclass(slots=True, frozen=True)
class News:
    """What is told: on the pod, or on the set of brokers."""

    reason: Reason
    broker_id: int
    text: str
    pod: Pod | None = None


@dataclass(slots=True, frozen=True)
class Verdict:
    """Whether a process may be stopped now."""

    may_stop: bool
    reason: Reason
    text: str
    replicas: int = 0
    """That the broker holds."""


@dataclass(slots=True)
class _Grant:
    epoch: int
    until_ms: int


@dataclass(slots=True)
class Scaling:
    """One controller's; it is asked while that leads."""

    wanted: int | None = None
    """How many brokers there are to be; None: nobody says, or it isn't known yet. 0: all are to stop, which
    says nothing of who belongs to the cluster."""
    news: list[News] = field(default_factory=list)
    """To be told, oldest first; at most MAX_NEWS."""
    _grants: dict[int, _Grant] = field(default_factory=dict)
    """By broker: processes that may stop, and haven't yet."""
    _young_until_ms: int | None = None
    """Until then an earlier leader's grants may not show; None: this one has only just begun to lead."""
    _told: dict[tuple[int, Pod | None], tuple[News, int]] = field(default_factory=dict)
    """By broker, on its pod and on the set: what was told last, and when."""

    def begin_term(self) -> None:
        """This controller leads from now on."""
        self._young_until_ms = None

    def standings(self, state: ClusterState) -> dict[int, Standing]:
        """Of the brokers above the wanted number; all others stay."""
        if not self.wanted:
            return {}
        above = sorted((each for each in state.brokers if each > self.wanted), reverse=True)
        if not above:
            return {}
        needed = _needed(state)
        left = sum(1 for broker in state.brokers.values() if _counts(broker))
        found = {}
        for broker_id in above:
            counts = _counts(state.brokers[broker_id])
            if not counts or left > needed:
                left -= counts
                found[broker_id] = Standing.LEAVES
            else:
                found[broker_id] = Standing.REFUSED
        return found

    def refusals(self, state: ClusterState) -> dict[int, str]:
        """Of the brokers that are one too many and can't go: why, and what to do."""
        standings = self.standings(state)
        return {
            each: why_refused(state, each)
            for each in sorted(standings)
            if standings[each] is Standing.REFUSED
        }

    def commands(self, state: ClusterState, now_ms: int) -> list[pb.Command]:
        """What to propose now. Not to be called again before all that was applied or refused."""
        self._grow_up(now_ms)
        if self.wanted is None:
            return []
        found = []
        standings = self.standings(state)
        for broker_id, broker in sorted(state.brokers.items()):
            match standings.get(broker_id, Standing.STAYS):
                case Standing.LEAVES if not broker.draining:
                    found.append(_scale_down(broker_id, True))
                    self._say_drained(state, broker_id, now_ms)
                case Standing.LEAVES if broker.fenced:
                    found += self._remove(state, broker, now_ms)
                case Standing.STAYS | Standing.REFUSED if broker.scaled_down and self.wanted:
                    found.append(_scale_down(broker_id, False))
                    text = f"{_shown(state, broker_id)} stays: it is not drained any more."
                    self._tell(Reason.TAKEN_BACK, broker_id, text, now_ms)
            if standings.get(broker_id) is Standing.REFUSED:
                self._tell(Reason.REFUSED, broker_id, why_refused(state, broker_id), now_ms)
            elif broker.no_room:
                self._tell(Reason.FULL, broker_id, _why_full(state, broker_id), now_ms)
        return found

    def judge(self, state: ClusterState, broker_id: int, pod: Pod | None, now_ms: int) -> Verdict:
        """Whether the broker's process may be stopped now. Who is told so is taken at the word."""
        verdict = self._judge(state, broker_id, now_ms)
        if verdict.may_stop and (broker := state.brokers.get(broker_id)) is not None:
            self._grants[broker_id] = _Grant(broker.epoch, now_ms + GRANT_MS)
        if pod is not None and self.standings(state).get(broker_id) is Standing.REFUSED:
            waits = "" if verdict.may_stop else f" {verdict.text}"
            self._tell(Reason.REFUSED, broker_id, why_refused(state, broker_id) + waits, now_ms, pod)
        elif pod is not None:
            self._tell(verdict.reason, broker_id, verdict.text, now_ms, pod)
        return verdict

    def _judge(self, state: ClusterState, broker_id: int, now_ms: int) -> Verdict:
        broker = state.brokers.get(broker_id)
        if broker is None:
            return Verdict(True, Reason.MAY_STOP, f"Broker {broker_id} is no member of the cluster.")
        replicas = len(state.held_by(broker_id))
        standings = self.standings(state)
        standing = standings.get(broker_id, Standing.STAYS)
        # A new leader, and one that Kubernetes doesn't answer, knows who leaves from the log alone.
        if standing is Standing.LEAVES or (self.wanted is None and broker.scaled_down):
            return _judge_leaving(_shown(state, broker_id), broker, replicas)
        if self.wanted == 0:
            return Verdict(True, Reason.MAY_STOP, "All brokers are to stop.", replicas)
        if standing is Standing.REFUSED and (drained := _who_drains(state, standings)):
            who = _shown(state, broker_id)
            text = f"{who} takes replicas of {_named(state, drained)}, and waits until they are there."
            return Verdict(False, Reason.HOLDS_ON, text, replicas)
        if broker.fenced:
            text = f"{_shown(state, broker_id)} is fenced: nobody waits for it."
            return Verdict(True, Reason.MAY_STOP, text, replicas)
        if why := self._needs(state, broker_id, now_ms):
            return Verdict(False, Reason.HOLDS_ON, why, replicas)
        text = f"Every partition of {_low(_shown(state, broker_id))} has enough replicas in sync without it."
        return Verdict(True, Reason.MAY_STOP, text, replicas)

    def _grow_up(self, now_ms: int) -> bool:
        """Whether an earlier leader may have let somebody stop of whom this one doesn't know."""
        if self._young_until_ms is None:
            self._young_until_ms = now_ms + YOUNG_MS
        return now_ms < self._young_until_ms

    def _needs(self, state: ClusterState, broker_id: int, now_ms: int) -> str:
        """Why the cluster needs the broker now and wouldn't if its other replicas were in sync; or empty."""
        away = {broker_id, *self._away(state, now_ms)}
        unknown = self._grow_up(now_ms)
        for key in state.held_by(broker_id):
            topic, partition = state.find(key)
            if broker_id not in partition.in_sync or len(partition.replicas) <= topic.min_insync:
                continue
            left = sum(1 for each in partition.in_sync if each not in away)
            if left < topic.min_insync:
                there = set(partition.in_sync) - away
                lacking = [each for each in partition.replicas if each not in there and each != broker_id]
                return (
                    f"Without {_low(_shown(state, broker_id))}, {topic.name}/{partition_of(key)} would "
                    f"have {left} replicas in sync and needs {topic.min_insync}: waits for "
                    f"{_named(state, lacking)}."
                )
            if left - unknown < topic.min_insync:
                return (
                    "Another controller leads since a moment: it waits until it shows whether the one before "
                    "it has let a broker stop."
                )
        return ""

    def _away(self, state: ClusterState, now_ms: int) -> set[int]:
        """Brokers that stop, or may."""
        for broker_id, grant in list(self._grants.items()):
            broker = state.brokers.get(broker_id)
            if broker is None or broker.epoch != grant.epoch or now_ms >= grant.until_ms:
                del self._grants[broker_id]
        return {each.broker_id for each in state.brokers.values() if each.shutting_down} | self._grants.keys()

    # --- what is told ---

    def _remove(self, state: ClusterState, broker: BrokerState, now_ms: int) -> list[pb.Command]:
        """One that has stopped goes, unless it holds something."""
        broker_id = broker.broker_id
        held = state.held_by(broker_id)
        if not held:
            text = f"{_shown(state, broker_id)} holds nothing any more, has stopped, and was removed."
            self._tell(Reason.SCALED_DOWN, broker_id, text, now_ms)
            return [pb.Command(remove_broker=pb.RemoveBroker(broker_id=broker_id))]
        if lost := sum(1 for key in state.derived.leaderless if key in held):
            text = (
                f"{_shown(state, broker_id)} has stopped with {lost} partitions that nobody else has in "
                f"sync: they can't be read or written. Its volume keeps them: scale up to {broker_id}."
            )
            self._tell(Reason.DATA_LEFT, broker_id, text, now_ms)
        return []

    def _say_drained(self, state: ClusterState, broker_id: int, now_ms: int) -> None:
        text = f"{_shown(state, broker_id)} is drained: {self.wanted} brokers are wanted."
        self._tell(Reason.SCALING_DOWN, broker_id, text, now_ms)

    def _tell(self, reason: Reason, broker_id: int, text: str, now_ms: int, pod: Pod | None = None) -> None:
        """At once what is new, later what differs in its figures alone."""
        key = broker_id, pod
        news = News(reason, broker_id, text, pod)
        before, told_ms = self._told.get(key, (None, 0))
        if before is not None and before.reason is reason:
            again_ms = TELL_SAME_MS if before == news else TELL_AGAIN_MS
            if now_ms - told_ms < again_ms:
                return
        self._told.pop(key, None)
        self._told[key] = news, now_ms
        if len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]
        self.news.append(news)
        del self.news[:-MAX_NEWS]


def _judge_leaving(who: str, broker: BrokerState, replicas: int) -> Verdict:
    if not broker.draining:
        return Verdict(False, Reason.DRAINING, f"{who} is about to be drained.", replicas)
    if replicas:
        text = f"{who} leaves the cluster: {replicas} replicas have yet to go elsewhere."
        return Verdict(False, Reason.DRAINING, text, replicas)
    return Verdict(True, Reason.MAY_STOP, f"{who} leaves the cluster: it holds nothing any more.")


def why_refused(state: ClusterState, broker_id: int) -> str:
    """Of a broker that is one too many and can't go, with what to do."""
    return (
        f"{_shown(state, broker_id)} can't leave the cluster: a topic has replication factor "
        f"{_needed(state)}, and fewer brokers would be left. Its volume keeps its data: scale up to "
        f"{broker_id} or more."
    )


def _why_full(state: ClusterState, broker_id: int) -> str:
    """Of a broker without room, with what to do."""
    return (
        f"The volume of {_low(_shown(state, broker_id))} has filled: others lead what they can. Enlarge its "
        "volume claim, or scale up: some replicas move to a new broker."
    )


def _scale_down(broker_id: int, on: bool) -> pb.Command:
    return pb.Command(set_broker=pb.SetBroker(broker_id=broker_id, draining=on, scaled_down=on))


def _needed(state: ClusterState) -> int:
    """So many brokers every topic has its replicas on."""
    return max((topic.replication_factor for topic in state.topics.values()), default=1)


def _counts(broker: BrokerState) -> bool:
    """Whether it is among those that take replicas, unless it leaves because of the wanted number: what a
    person drains holds nothing soon."""
    return broker.scaled_down or not broker.draining


def _who_drains(state: ClusterState, standings: dict[int, Standing]) -> list[int]:
    """Brokers that leave, and have yet to bring something elsewhere."""
    return [
        each
        for each, standing in sorted(standings.items())
        if standing is Standing.LEAVES and state.held_by(each) and not state.brokers[each].fenced
    ]


def _shown(state: ClusterState, broker_id: int) -> str:
    """As a sentence begins with it."""
    broker = state.brokers.get(broker_id)
    hosts = () if broker is None else (host for name, host, _ in broker.endpoints if name == "tank")
    return shown("Broker", broker_id, next(iter(hosts), ""), FIRST_BROKER)


def _low(named: str) -> str:
    """The same within a sentence."""
    return named[0].lower() + named[1:]


def _named(state: ClusterState, brokers: Iterable[int]) -> str:
    named = [_low(_shown(state, each)) for each in brokers]
    return (
        named[0]
        if len(named) == 1
        else "brokers " + ", ".join(each.removeprefix("broker ") for each in named)
    )
