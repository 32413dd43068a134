"""Scaling to the wanted number of brokers: which are drained, removed, and may be stopped. Pure.

Brokers are numbered from 1. Where N are wanted, brokers above N leave, the highest first, as long as enough
stay for every topic's replication factor; the others are refused, and stay members with all replicas. The
state says which brokers leave (`BrokerState.scaled_down`), so a new leader goes on. A broker whose process
was killed or whose machine was lost doesn't leave.

A process may be stopped when its broker leaves and holds nothing; any other when no partition that could do
without it falls below `min.insync.replicas`. Without a wanted number the brokers in the log go on leaving.
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
"""How long a process that may stop counts as stopped before the state shows it: otherwise two that ask at the
same time could both stop.
"""
YOUNG_MS = 5_000
"""How long a new leader assumes that the leader before it has let a process stop that the state doesn't show
yet.
"""
TELL_AGAIN_MS = 15_000
"""How often an event is written again when only its figures change, such as the replicas that a broker still
holds.
"""
TELL_SAME_MS = 300_000
"""How often an unchanged event is written again: Kubernetes forgets events after an hour."""
MAX_NEWS = 200
"""How many events may wait to be written; the oldest are dropped."""
MAX_TOLD = 2_000
"""How many brokers and pods have a remembered last event."""


class ScalingState(Enum):
    """A broker's state under the wanted number."""

    STAYS = "stays"
    LEAVES = "leaves"
    REFUSED = "refused"
    """The broker is above the wanted number, but too few brokers would be left without it."""


class Reason(StrEnum):
    """The reason of a Kubernetes event."""

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
        """Whether Kubernetes shows it as a warning."""
        return self in (
            Reason.REFUSED, Reason.DATA_LEFT, Reason.HOLDS_ON, Reason.CONTROLLER, Reason.FULL,
        )  # fmt: skip


@dataclass(slots=True, frozen=True)
class Pod:
    """A broker's pod."""

    name: str
    uid: str


@dataclass(slots=True, frozen=True)
class News:
    """An event to write: on the broker's pod, or on the StatefulSet of brokers."""

    reason: Reason
    broker_id: int
    text: str
    pod: Pod | None = None


@dataclass(slots=True, frozen=True)
class StopDecision:
    """Whether a process may be stopped now."""

    may_stop: bool
    reason: Reason
    text: str
    replicas: int = 0
    """How many replicas the broker holds."""


@dataclass(slots=True)
class _Grant:
    epoch: int
    until_ms: int


@dataclass(slots=True)
class Scaling:
    """One controller's scaling, in use while it leads."""

    wanted: int | None = None
    """How many brokers are wanted; None where that is not configured, or not known yet. 0: all stop, and stay
    members."""
    news: list[News] = field(default_factory=list)
    """The events to write, oldest first; at most MAX_NEWS."""
    _grants: dict[int, _Grant] = field(default_factory=dict)
    """By broker: processes that may stop, and have not stopped yet."""
    _young_until_ms: int | None = None
    """Until then the grants of an earlier leader may not show in the state; None before the first tick."""
    _told: dict[tuple[int, Pod | None], tuple[News, int]] = field(default_factory=dict)
    """The last event of each broker and pod, and when it was written."""

    def begin_term(self) -> None:
        """Forgets what an earlier term knew: this controller begins to lead."""
        self._young_until_ms = None

    def standings(self, state: ClusterState) -> dict[int, ScalingState]:
        """The states of the brokers above the wanted number."""
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
                found[broker_id] = ScalingState.LEAVES
            else:
                found[broker_id] = ScalingState.REFUSED
        return found

    def refusals(self, state: ClusterState) -> dict[int, str]:
        """By broker above the wanted number that can't leave: the reason, and advice."""
        standings = self.standings(state)
        return {
            each: why_refused(state, each)
            for each in sorted(standings)
            if standings[each] is ScalingState.REFUSED
        }

    def commands(self, state: ClusterState, now_ms: int) -> list[pb.Command]:
        """The commands to propose now. Call it again only when all of them were applied or refused."""
        self._grow_up(now_ms)
        if self.wanted is None:
            return []
        found = []
        standings = self.standings(state)
        for broker_id, broker in sorted(state.brokers.items()):
            match standings.get(broker_id, ScalingState.STAYS):
                case ScalingState.LEAVES if not broker.draining:
                    found.append(_scale_down(broker_id, True))
                    self._say_drained(state, broker_id, now_ms)
                case ScalingState.LEAVES if broker.fenced:
                    found += self._remove(state, broker, now_ms)
                case ScalingState.STAYS | ScalingState.REFUSED if broker.scaled_down and self.wanted:
                    found.append(_scale_down(broker_id, False))
                    text = f"{_shown(state, broker_id)} stays: it is not drained any more."
                    self._tell(Reason.TAKEN_BACK, broker_id, text, now_ms)
            if standings.get(broker_id) is ScalingState.REFUSED:
                self._tell(Reason.REFUSED, broker_id, why_refused(state, broker_id), now_ms)
            elif broker.no_room:
                self._tell(Reason.FULL, broker_id, _why_full(state, broker_id), now_ms)
        return found

    def judge(self, state: ClusterState, broker_id: int, pod: Pod | None, now_ms: int) -> StopDecision:
        """Whether the broker's process may be stopped now; if so, the process counts as stopped from
        then on.
        """
        verdict = self._judge(state, broker_id, now_ms)
        if verdict.may_stop and (broker := state.brokers.get(broker_id)) is not None:
            self._grants[broker_id] = _Grant(broker.epoch, now_ms + GRANT_MS)
        if pod is not None and self.standings(state).get(broker_id) is ScalingState.REFUSED:
            waits = "" if verdict.may_stop else f" {verdict.text}"
            self._tell(Reason.REFUSED, broker_id, why_refused(state, broker_id) + waits, now_ms, pod)
        elif pod is not None:
            self._tell(verdict.reason, broker_id, verdict.text, now_ms, pod)
        return verdict

    def _judge(self, state: ClusterState, broker_id: int, now_ms: int) -> StopDecision:
        broker = state.brokers.get(broker_id)
        if broker is None:
            return StopDecision(True, Reason.MAY_STOP, f"Broker {broker_id} is no member of the cluster.")
        replicas = len(state.held_by(broker_id))
        standings = self.standings(state)
        standing = standings.get(broker_id, ScalingState.STAYS)
        # A leader that has no answer of Kubernetes yet knows the leaving brokers from the state.
        if standing is ScalingState.LEAVES or (self.wanted is None and broker.scaled_down):
            return _judge_leaving(_shown(state, broker_id), broker, replicas)
        if self.wanted == 0:
            return StopDecision(True, Reason.MAY_STOP, "All brokers are to stop.", replicas)
        if standing is ScalingState.REFUSED and (drained := _still_draining(state, standings)):
            name = _shown(state, broker_id)
            text = f"{name} takes replicas of {_named(state, drained)}, and waits until they are there."
            return StopDecision(False, Reason.HOLDS_ON, text, replicas)
        if broker.fenced:
            text = f"{_shown(state, broker_id)} is fenced: no partition waits for it."
            return StopDecision(True, Reason.MAY_STOP, text, replicas)
        if why := self._needs(state, broker_id, now_ms):
            return StopDecision(False, Reason.HOLDS_ON, why, replicas)
        text = f"Every partition of {_low(_shown(state, broker_id))} has enough replicas in sync without it."
        return StopDecision(True, Reason.MAY_STOP, text, replicas)

    def _grow_up(self, now_ms: int) -> bool:
        """Whether an earlier leader may have let a process stop that the state doesn't show yet."""
        if self._young_until_ms is None:
            self._young_until_ms = now_ms + YOUNG_MS
        return now_ms < self._young_until_ms

    def _needs(self, state: ClusterState, broker_id: int, now_ms: int) -> str:
        """Why the broker may not stop now: a partition would have too few replicas in sync. Empty when it
        may.
        """
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
        """The brokers that are stopping, or may stop."""
        for broker_id, grant in list(self._grants.items()):
            broker = state.brokers.get(broker_id)
            if broker is None or broker.epoch != grant.epoch or now_ms >= grant.until_ms:
                del self._grants[broker_id]
        return {each.broker_id for each in state.brokers.values() if each.shutting_down} | self._grants.keys()

    # --- events ---

    def _remove(self, state: ClusterState, broker: BrokerState, now_ms: int) -> list[pb.Command]:
        """Removes a broker that has stopped, unless it holds replicas."""
        broker_id = broker.broker_id
        held = state.held_by(broker_id)
        if not held:
            text = f"{_shown(state, broker_id)} holds nothing any more, has stopped, and was removed."
            self._tell(Reason.SCALED_DOWN, broker_id, text, now_ms)
            return [pb.Command(remove_broker=pb.RemoveBroker(broker_id=broker_id))]
        if lost := sum(1 for key in state.derived.leaderless if key in held):
            text = (
                f"{_shown(state, broker_id)} has stopped with {lost} partitions that no other broker has in "
                f"sync: they can't be read or written. Its volume keeps them: scale up to {broker_id}."
            )
            self._tell(Reason.DATA_LEFT, broker_id, text, now_ms)
        return []

    def _say_drained(self, state: ClusterState, broker_id: int, now_ms: int) -> None:
        text = f"{_shown(state, broker_id)} is drained: {self.wanted} brokers are wanted."
        self._tell(Reason.SCALING_DOWN, broker_id, text, now_ms)

    def _tell(self, reason: Reason, broker_id: int, text: str, now_ms: int, pod: Pod | None = None) -> None:
        """Adds an event: a new one at once, one that differs in figures alone after a while."""
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


def _judge_leaving(name: str, broker: BrokerState, replicas: int) -> StopDecision:
    if not broker.draining:
        return StopDecision(False, Reason.DRAINING, f"{name} is about to be drained.", replicas)
    if replicas:
        text = f"{name} leaves the cluster: {replicas} replicas have yet to go elsewhere."
        return StopDecision(False, Reason.DRAINING, text, replicas)
    return StopDecision(True, Reason.MAY_STOP, f"{name} leaves the cluster: it holds nothing any more.")


def why_refused(state: ClusterState, broker_id: int) -> str:
    """Why a broker above the wanted number can't leave, with advice."""
    return (
        f"{_shown(state, broker_id)} can't leave the cluster: a topic has replication factor "
        f"{_needed(state)}, and fewer brokers would be left. Its volume keeps its data: scale up to "
        f"{broker_id} or more."
    )


def _why_full(state: ClusterState, broker_id: int) -> str:
    """The text about a broker without room, with advice."""
    return (
        f"The volume of {_low(_shown(state, broker_id))} has filled: others lead what they can. Enlarge its "
        "volume claim, or scale up: some replicas move to a new broker."
    )


def _scale_down(broker_id: int, on: bool) -> pb.Command:
    return pb.Command(set_broker=pb.SetBroker(broker_id=broker_id, draining=on, scaled_down=on))


def _needed(state: ClusterState) -> int:
    """The greatest replication factor of all topics."""
    return max((topic.replication_factor for topic in state.topics.values()), default=1)


def _counts(broker: BrokerState) -> bool:
    """Whether the broker takes replicas, apart from the wanted number; a broker that an operator drains
    doesn't.
    """
    return broker.scaled_down or not broker.draining


def _still_draining(state: ClusterState, standings: dict[int, ScalingState]) -> list[int]:
    """The leaving brokers that still hold replicas."""
    return [
        each
        for each, standing in sorted(standings.items())
        if standing is ScalingState.LEAVES and state.held_by(each) and not state.brokers[each].fenced
    ]


def _shown(state: ClusterState, broker_id: int) -> str:
    """The broker's name at the beginning of a sentence."""
    broker = state.brokers.get(broker_id)
    hosts = () if broker is None else (host for name, host, _ in broker.endpoints if name == "tank")
    return shown("Broker", broker_id, next(iter(hosts), ""), FIRST_BROKER)


def _low(named: str) -> str:
    """The broker's name within a sentence."""
    return named[0].lower() + named[1:]


def _named(state: ClusterState, brokers: Iterable[int]) -> str:
    named = [_low(_shown(state, each)) for each in brokers]
    return (
        named[0]
        if len(named) == 1
        else "brokers " + ", ".join(each.removeprefix("broker ") for each in named)
    )
