"""What serves Iggy's clients in a simulated broker: users without argon2, and the root user of a new
cluster."""

from collections.abc import Callable

from tank_node.broker.broker import Broker
from tank_node.iggy.access import IggyAccess
from tank_node.iggy.services import IggyServices
from tank_node.iggy.settings import IggySettings
from tank_node.users.authorizer import IggyAuthorizer
from tank_node.users.logins import UserLogins
from tank_node.users.recent_logins import RecentLogins
from tank_node.users.root_credentials import RootCredentials, RootOrigin
from tank_node.users.root_founder import RootUserFounder
from tank_protos.feature_levels import IGGY
from tank_protos.users.secret import Secret
from tests.simulation.world.serving import Server
from tests.simulation.world.world import MS, SECOND, Life, World
from tests.support.iggy.plain_passwords import PlainPasswords

ROOT_NAME = "iggy"
ROOT_PASSWORD = b"iggy"
_KEY = bytes(32)


def serve_iggy(world: World, life: Life, broker: Broker, server: Server, settings: IggySettings) -> None:
    """Serves Iggy's clients as long as this process lives, as `tank_node.app.iggy_serving` does it."""
    view, passwords = broker.link.view, PlainPasswords()

    def in_tick_later(delay_ms: int, call: Callable[[], None]) -> None:
        def act() -> None:
            server.begin()
            call()
            server.finish()

        world.after(delay_ms * MS, life, act)

    logins = UserLogins(
        view.users, passwords, RecentLogins(_KEY), broker.clock, in_tick_later, broker.metrics.logins
    )
    access = IggyAccess(logins, IggyAuthorizer(view.users), passwords, world.random_bytes)
    server.iggy = IggyServices(access, settings)
    credentials = RootCredentials(ROOT_NAME, Secret(ROOT_PASSWORD), RootOrigin.CONFIGURED)
    founder = RootUserFounder(
        view.users, broker.link.requests.users, passwords, credentials, lambda name, password: None
    )

    def look() -> None:
        if view.feature_level >= IGGY:
            founder.look()

    world.every(SECOND, life, look)
