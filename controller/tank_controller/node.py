"""The parts of a controller that belongs to a cluster, and the interface of the process around them."""

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tank_controller import limits
from tank_controller.commands.machine import Metadata
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.k8s.client import Kubernetes, KubernetesConfig
from tank_controller.leader.brokers.brokers import BrokerStreams
from tank_controller.leader.brokers.clocks import BrokerClocks
from tank_controller.leader.leadership import ControllerLeadership, LeaderParts
from tank_controller.leader.proposals import Proposals
from tank_controller.leader.raising import Raising
from tank_controller.leader.scaling import Scaling
from tank_controller.raft import recollection
from tank_controller.raft.birth import Birth
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import NodeId
from tank_controller.raft.settings import Settings
from tank_controller.raft_node.disk_thread import DiskThread
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.member import RaftMember
from tank_controller.raft_node.peers import Peers
from tank_controller.raft_node.readiness import Readiness, Sight
from tank_controller.raft_node.replay import StoredRaft
from tank_controller.raft_node.storage import RaftStorage
from tank_controller.raft_node.ticks import ELECTION_TICKS
from tank_controller.security.trust import Trust
from tank_protos import feature_levels
from tank_protos.http_api.token import NO_TOKEN, Token


@dataclass(slots=True, frozen=True)
class ControllerConfig:
    """The configuration of a controller."""

    ordinal: int
    cluster: Mapping[int, str]
    """host:port of all controllers' gRPC, by ordinal, this one among them. For pods of a StatefulSet it has
    more addresses than it iterates over (`pod_addresses.PodAddresses`).
    """
    data: Path
    listen: str
    """host:port on which gRPC is served."""
    http: str
    """host:port on which health, metrics and the API are served; empty: nowhere."""
    session_timeout_ms: int
    clock_skew_max_ms: int = limits.CLOCK_SKEW_MAX_MS
    """A broker whose clock is further from those of most leads no partition that another broker could
    lead.
    """
    api_token: Token = NO_TOKEN
    """The token that changes by the API need."""
    secret: Path | None = None
    """The file with the cluster's secret; None: all callers are trusted."""
    kubernetes: KubernetesConfig | None = None
    """The pod's place; None outside of Kubernetes."""


@dataclass(slots=True, frozen=True)
class DiskSpace:
    """The size and free space of a disk, in bytes."""

    free: int
    """The free bytes for users other than root."""
    size: int


def space_of(folder: Path) -> DiskSpace | None:
    """The space of the folder's disk; None where the system doesn't say."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class WallClock:
    """The system's clocks, in milliseconds."""

    def now_ms(self) -> int:
        """Milliseconds of the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000


class ControllerNode:
    """One controller of a cluster: its Raft member, its state, and its brokers' streams."""

    def __init__(
        self,
        config: ControllerConfig,
        storage: RaftStorage,
        stored: StoredRaft,
        transport: Peers,
        post: Callable[[Callable[[], None]], object],
        on_fatal: Callable[[Exception], None],
        trust: Trust,
    ) -> None:
        """Raises SnapshotError. `post` runs a call on the loop's thread."""
        self.trust = trust
        own = NodeId(config.ordinal, storage.disk)
        raft = Raft(
            own, stored.cluster_id, stored.hard, stored.snapshot, stored.entries, random.randrange,
            Settings(election_ticks=ELECTION_TICKS, max_level=feature_levels.OWN.highest), stored.base,
            recollects=True,
        )  # fmt: skip
        self.metadata = Metadata()
        driver: RaftDriver[CommandOutcome] = RaftDriver(
            raft, storage, transport, self.metadata, DiskThread(post), on_fatal
        )
        self.member = RaftMember(driver, config.cluster)
        self.proposals = Proposals(driver, self.metadata)
        driver.start()
        self.scaling = Scaling()
        members = self.member.ids
        self.raising = Raising(
            self.member.behind, demands=lambda state, streams: trust.command(state, streams, members())
        )
        self.clocks = BrokerClocks(config.clock_skew_max_ms, config.session_timeout_ms)
        leadership = ControllerLeadership(
            self.proposals,
            WallClock(),
            os.urandom,
            config.session_timeout_ms,
            LeaderParts(self.raising, self.clocks, self.scaling),
        )
        self.brokers = BrokerStreams(stored.cluster_id, leadership, self.member.leader_address)
        self._data = config.data
        self.removed = ""
        """Why this controller is no longer a member; empty while it is one."""
        self.readiness = Readiness()
        self._peers = transport
        self.shortage = ""
        """Why no majority of the members can come together to elect a leader; empty when one can."""

    @property
    def problem(self) -> str:
        """Why this controller takes no commands; empty when all is well."""
        driver = self.member.driver
        if trouble := driver.trouble or self.removed or self.shortage:
            return trouble
        if self.member.is_missing(driver.raft.own):
            return "it doesn't vote yet: it waits for the leader to add it"
        return self.readiness.waits_for

    def space(self) -> DiskSpace | None:
        """The present space of the disk that holds the controller's folder."""
        return space_of(self._data)

    def facts(self) -> dict[str, int | str]:
        """The facts that /readyz shows."""
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
            "brokers_connected": len(self.brokers.streams),
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
        """One tick of the clock."""
        self.member.driver.tick()
        self.readiness.look(self._sight())
        self.trust.look(self.metadata.state)
        if self.member.driver.failed is None:
            self.brokers.tick()


class NodeHost(Protocol):
    """The process that runs a controller, as its gRPC services and its HTTP port see it."""

    birth: Birth | None
    """The controllers' founding, while this controller belongs to no cluster."""
    node: ControllerNode | None
    """The controller's parts, once it belongs to a cluster."""
    kubernetes: Kubernetes | None
    """None where it doesn't run in a pod."""
    trust: Trust
