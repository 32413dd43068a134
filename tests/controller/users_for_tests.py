"""Commands about users, as tests write them."""

from hashlib import sha256

from tank_controller.state.iggy.users import UserState
from tank_controller.state.state import ClusterState
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb
from tank_protos.users.permissions import Permissions
from tests.controller.commands_for_tests import apply, register

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0${:A<43}"


def hashed(password: str) -> str:
    """A stand-in for a hash, of the right form."""
    return HASH.format(password)


def digest(token: str) -> bytes:
    """What is kept of a token."""
    return sha256(token.encode()).digest()


def found_root(name: str = "iggy", password: str = "root") -> pb.Command:
    return pb.Command(
        now_ms=1, create_user=pb.CreateUser(name=name, password_hash=hashed(password), root=True)
    )


def create_user(
    name: str,
    password: str = "secret",
    permissions: Permissions | None = None,
    *births: int,
    inactive: bool = False,
) -> pb.Command:
    """births: of what the permissions name."""
    create = pb.CreateUser(name=name, password_hash=hashed(f"{name}{password}"), inactive=inactive)
    if permissions is not None:
        create.permissions = permissions.encode()
        create.births.extend(births)
    return pb.Command(now_ms=7, create_user=create)


def delete_user(user: UserState) -> pb.Command:
    return pb.Command(delete_user=pb.DeleteUser(user=ref(user)))


def update_user(user: UserState, name: str | None = None, inactive: bool | None = None) -> pb.Command:
    update = pb.UpdateUser(user=ref(user), name=name)
    if inactive is not None:
        update.inactive = inactive
    return pb.Command(update_user=update)


def change_password(user: UserState, password: str, *, operator: bool = False) -> pb.Command:
    """By somebody who proved the user's password, or by an operator."""
    change = pb.ChangePassword(user=ref(user), password_hash=hashed(password))
    change.credentials_index = 0 if operator else user.credentials_index
    return pb.Command(change_password=change)


def update_permissions(user: UserState, permissions: Permissions | bytes | None, *births: int) -> pb.Command:
    document = permissions.encode() if isinstance(permissions, Permissions) else permissions
    return pb.Command(
        update_permissions=pb.UpdatePermissions(user=ref(user), permissions=document, births=births)
    )


def create_token(
    user: UserState, name: str, token: str = "", *, expires_us: int = 0, now_ms: int = 0
) -> pb.Command:
    create = pb.CreateToken(user=ref(user), name=name, digest=digest(token or name), expires_us=expires_us)
    create.token_deleted_index = user.token_deleted_index
    return pb.Command(now_ms=now_ms, create_token=create)


def delete_token(user: UserState, name: str, now_ms: int = 0) -> pb.Command:
    return pb.Command(now_ms=now_ms, delete_token=pb.DeleteToken(user=ref(user), name=name))


def ref(user: UserState) -> pb.UserRef:
    return pb.UserRef(number=user.number, born=user.born)


def with_users(*names: str) -> ClusterState:
    """A state of the level of Iggy, with a broker, the root user, and users 1, 2 and so on."""
    state = ClusterState()
    apply(state, register())
    state.feature_level = IGGY
    for command in [found_root(), *map(create_user, names)]:
        outcome = apply(state, command)
        assert outcome.rejection is None, outcome.rejection
    return state


def the(state: ClusterState, name: str) -> UserState:
    """The user of this name, which is there."""
    user = state.users.named(name)
    assert user is not None, name
    return user
