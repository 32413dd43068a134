"""What a controller consists of once it belongs to a cluster, put together."""

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tank_controller import limits
from tank_controller.k8s.client import KubernetesConfig
from tank_controller.leader.broker_clocks import BrokerClocks
from tank_controller.leader.brokers import BrokerDesk
from tank_controller.leader.liveness import BrokerSessions
from tank_controller.leader.proposals import Proposals
from tank_controller.leader.raising import Raising
from tank_controller.leader.scaling import Scaling
from tank_controller.leader.tasks import Duties
from tank_controller.raft import recollection
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import NodeId
from tank_controller.raft.settings import Settings
from tank_controller.raft_node.disk_thread import DiskThread
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.member import Member
from tank_controller.raft_node.peers import Peers
from tank_controller.raft_node.readiness import Readiness, Sight
from tank_controller.raft_node.replay import Stored
from tank_controller.raft_node.storage import RaftStorage
from tank_controller.raft_node.ticks import ELECTION_TICKS
from tank_controller.security.api_token import NO_TOKEN, Token
from tank_controller.security.trust import Trust
from tank_controller.state.machine import Metadata
from tank_controller.state.outcome import Outcome
from tank_protos import feature_levels


@dataclass(slots=True, frozen=True)
class ControllerConfig:
    """What a controller is told at its start."""

    ordinal: int
    cluster: Mapping[int, str]
    """host:port of all controllers' gRPC, by ordinal, this one among them. Of a StatefulSet's pods it knows
    more than it iterates over (`pod_addresses.PodAddresses`)."""
    data: Path
    listen: str
    """host:port of its gRPC."""
    http: str
    """host:port of health, metrics and the API; empty: nowhere."""
    session_timeout_ms: int
    clock_skew_max_ms: int = limits.CLOCK_SKEW_MAX_MS
    """A broker whose clock is further from those of most leads nothing that another could."""
    api_token: Token = NO_TOKEN
    """What changes by the API take."""
    secret: Path | None = None
    """The file with the cluster's secret; None: whoever reaches the port is believed."""
    kubernetes: KubernetesConfig | None = None
    """Where its pod is; None: it is in none."""


@dataclass(slots=True, frozen=True)
class Space:
    """Of a disk, in bytes."""

    free: int
    """What is left for who isn't root."""
    size: int


def space_of(folder: Path) -> Space | None:
    """None: the system doesn't tell."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class WallClock:
    """The system's clocks."""

    def now_ms(self) -> int:
        """Milliseconds of the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000


class Rooms:
    """What there is once the controller belongs to a cluster."""

    def __init__(
        self,
        config: ControllerConfig,
        storage: RaftStorage,
        stored: Stored,
        transport: Peers,
        post: Callable[[Callable[[], None]], object],
        on_fatal: Callable[[Exception], None],
        trust: Trust,
    ) -> None:
        """SnapshotError. `post` runs a call on the loop's thread."""
        self.trust = trust
        own = NodeId(config.ordinal, storage.disk)
        raft = Raft(
            own, stored.cluster_id, stored.hard, stored.snapshot, stored.entries, random.randrange,
            Settings(election_ticks=ELECTION_TICKS, max_level=feature_levels.OWN.highest), stored.base,
            recollects=True,
        )  # fmt: skip
        self.metadata = Metadata()
        driver: RaftDriver[Outcome] = RaftDriver(
            raft, storage, transport, self.metadata, DiskThread(post), on_fatal
        )
        self.member = Member(driver, config.cluster)
        self.proposals = Proposals(driver, self.metadata)
        driver.start()
        self.scaling = Scaling()
        members = self.member.ids
        self.raising = Raising(
            self.member.behind, demands=lambda state, streams: trust.command(state, streams, members())
        )
        self.clocks = BrokerClocks(config.clock_skew_max_ms, config.session_timeout_ms)
        self.desk = BrokerDesk(
            stored.cluster_id,
            self.proposals,
            self.metadata,
            WallClock(),
            os.urandom,
            lambda: BrokerSessions(config.session_timeout_ms),
            lambda: Duties(self.scaling),
            self.member.leader_address,
            config.session_timeout_ms,
            self.raising,
            self.clocks,
        )
        self._data = config.data
        self.removed = ""
        """Why it is no member any more."""
        self.readiness = Readiness()
        self._peers = transport
        self.shortage = ""
        """Why too few members can come together for one of them to lead."""

    @property
    def problem(self) -> str:
        """Why it takes nothing; empty when all is well."""
        driver = self.member.driver
        if trouble := driver.trouble or self.removed or self.shortage:
            return trouble
        if self.member.is_missing(driver.raft.own):
            return "it doesn't vote yet: it waits for the leader to add it"
        return self.readiness.waits_for

    def space(self) -> Space | None:
        """Of the disk that its folder is on, now."""
        return space_of(self._data)

    def facts(self) -> dict[str, int | str]:
        """For /readyz."""
        raft, state = self.member.raft, self.metadata.state
        return {
            "cluster_id": raft.cluster_id,
            "controller_id": raft.own.ordinal,
            "leader": self.member.leader_address(),
            "leads": int(self.member.driver.ready),
            "term": raft.term,
            "commit_index": raft.log.commit,
            "applied_index": self.member.driver.applied,
            "feature_level": state.feature_level,
            "secret": self.trust.standing,
            "brokers_connected": len(self.desk.streams),
            "brokers": len(state.brokers),
            "topics": len(state.topics),
            "partitions": state.derived.partition_count,
        }

    async def answers(self, member: NodeId) -> bool:
        """Whether this other controller, with this very disk, answers now."""
        return await self._peers.answers(self.member.raft.own, member)

    def _sight(self) -> Sight:
        driver, leader = self.member.driver, self.member.raft.leader
        return Sight(
            driver.ready,
            self.member.leader_address() if leader != self.member.raft.own else "",
            leader is not None and self._peers.reaches(leader.ordinal),
            self.member.raft.log.commit,
            driver.applied,
            not recollection.is_over(self.member.raft),
        )

    def tick(self) -> None:
        """Time passes."""
        self.member.driver.tick()
        self.readiness.look(self._sight())
        self.trust.look(self.metadata.state)
        if self.member.driver.failed is None:
            self.desk.tick()
