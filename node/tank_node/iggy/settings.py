"""The settings of Iggy's protocol at a broker."""

from dataclasses import dataclass

from tank_protos.topic_settings import LogFormat


@dataclass(frozen=True, slots=True)
class IggySettings:
    """What an operator sets, for all sessions with Iggy's clients."""

    era: str = ""
    """The name of the era that all clients have: option `iggy_era`. Empty: each connection shows its own."""
    anonymous: bool = False
    """Whether clients of era S are served, which never log in: option `iggy_anonymous`."""
    poll_wait_ms: int = 0
    """How long a poll waits for a message: option `iggy_poll_wait_ms`."""
    heartbeat: bool = False
    """Whether connections of clients that don't ping are closed: option `iggy_heartbeat`."""
    log_format: LogFormat = LogFormat.KAFKA
    """In which format the topics of Iggy's clients are stored, if they don't say: option `iggy_format`."""
    port: int = 0
    """The port that clients reach: of the listener."""
