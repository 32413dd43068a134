"""Users as bytes: in snapshots, and in what brokers get. Pure."""

from tank_controller.state.iggy.users import TokenState, UserState
from tank_protos.generated import control_pb2 as pb


def user_message(user: UserState) -> pb.User:
    """A user as snapshots and deltas hold it."""
    message = pb.User(
        number=user.number,
        name=user.name,
        created_ms=user.created_ms,
        born=user.born,
        password_hash=user.password_hash,
        credentials_index=user.credentials_index,
        inactive=not user.active,
        births=user.births,
        tokens=[
            pb.UserToken(name=token.name, digest=token.digest, expires_us=token.expires_us)
            for token in user.tokens
        ],
        token_deleted_index=user.token_deleted_index,
    )
    if user.permissions is not None:
        message.permissions = user.permissions
    return message


def user_state(message: pb.User) -> UserState:
    """The user of a message."""
    return UserState(
        number=message.number,
        name=message.name,
        created_ms=message.created_ms,
        born=message.born,
        password_hash=message.password_hash,
        credentials_index=message.credentials_index,
        active=not message.inactive,
        permissions=message.permissions if message.HasField("permissions") else None,
        births=tuple(message.births),
        tokens=tuple(TokenState(token.name, token.digest, token.expires_us) for token in message.tokens),
        token_deleted_index=message.token_deleted_index,
    )
