"""A member of a group."""

from tank_node.coordinators.machine.group_requests import JoinRequest

Protocols = tuple[tuple[str, bytes], ...]


class Member:
    """What the coordinator knows of one member. Times are those of a monotonic clock, in milliseconds."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline_ms",
        "instance_id",
        "is_new",
        "join_token",
        "member_id",
        "owes_sync",
        "protocols",
        "rebalance_ms",
        "session_ms",
        "sync_token",
        "turn",
    )

    def __init__(self, member_id: str, request: JoinRequest) -> None:
        self.member_id = member_id
        self.instance_id = request.member.instance_id
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.session_ms = request.session_ms
        self.rebalance_ms = request.rebalance_ms
        self.protocols: Protocols = request.protocols
        self.assignment = b""
        self.deadline_ms = 0
        """When its session ends, unless it is heard before."""
        self.is_new = False
        """Whether it has never had an answer to a join: it can't send heartbeats."""
        self.owes_sync = False
        """Whether it was told of a generation and has not asked for its assignment since."""
        self.join_token: object | None = None
        """Its join that waits for the generation."""
        self.sync_token: object | None = None
        """Its sync that waits for the assignments."""
        self.turn = 0
        """Its place among the joins that wait: the first one's is the least."""

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place when its process starts again."""
        return self.instance_id is not None

    @property
    def may_expire(self) -> bool:
        """Whether its silence counts: a member that waits for an answer can't send heartbeats, and a new one
        has a long deadline instead."""
        return self.is_new or (self.join_token is None and self.sync_token is None)

    @property
    def held_bytes(self) -> int:
        """The size of what it says in its protocols."""
        return sum(len(name) + len(metadata) for name, metadata in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """What it says in this protocol; empty where it doesn't know it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")
