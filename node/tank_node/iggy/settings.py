"""The settings of Iggy's protocol at a broker."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IggySettings:
    """What an operator sets, for all sessions with Iggy's clients."""

    era: str = ""
    """The name of the era that all clients have: option `iggy_era`. Empty: each connection shows its own."""
    anonymous: bool = False
    """Whether clients of era S are served, which never log in: option `iggy_anonymous`."""
    poll_wait_ms: int = 0
    """How long a poll waits for a message: option `iggy_poll_wait_ms`."""
    port: int = 0
    """The port that clients reach: of the listener."""
