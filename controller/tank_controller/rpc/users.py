"""Users of Iggy's clients as people and their tools get them: without what proves a login."""

from collections.abc import Iterator

from tank_controller.state.iggy.users_codec import user_message
from tank_controller.state.state import ClusterState
from tank_controller.state.view_parts import PART_BYTES
from tank_protos.generated import control_pb2 as pb


def user_parts(state: ClusterState) -> Iterator[pb.UsersAnswer]:
    """The present users by number, in messages of bounded size, one at least; the state may change between
    them.
    """
    part, size = pb.UsersAnswer(), 0
    for user in [user for _, user in sorted(state.users.by_number.items())]:
        message = user_message(user)
        hide_secrets(message)
        part.users.append(message)
        size += message.ByteSize()
        if size >= PART_BYTES:
            yield part
            part, size = pb.UsersAnswer(), 0
    yield part


def hide_secrets(user: pb.User) -> None:
    """Takes the hashes of the password and the tokens out of a message."""
    user.ClearField("password_hash")
    for token in user.tokens:
        token.ClearField("digest")
