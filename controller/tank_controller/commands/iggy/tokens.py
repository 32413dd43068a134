"""Commands that create and delete personal access tokens. Pure.

A token that has expired stays until its user gets another one: until then brokers can tell its owner that it
expired, and not merely that they don't know it.
"""

from dataclasses import replace

from tank_controller import limits
from tank_controller.commands.iggy.users import put, user_of, without_expired
from tank_controller.commands.levels import check_level
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.iggy.users import TokenState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb
from tank_protos.users.rules import token_name_problem
from tank_protos.users.tokens import DIGEST_BYTES


def check_create_token(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    create = command.create_token
    check_level(state, IGGY)
    user = without_expired(user_of(state, create.user), command.now_ms)
    if problem := token_name_problem(create.name):
        raise Rejected(ErrorCode.INVALID_NAME, problem)
    if len(create.digest) != DIGEST_BYTES:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"the digest of a token has {DIGEST_BYTES} bytes")
    if any(token.digest == create.digest and token.name == create.name for token in user.tokens):
        return  # a repeat
    if any(token.name == create.name for token in user.tokens):
        raise Rejected(ErrorCode.TOKEN_EXISTS, f"the user has a token {create.name} already")
    if create.digest in state.users.owners:
        raise Rejected(ErrorCode.TOKEN_EXISTS, "there is such a token already: make another one")
    if create.token_deleted_index != user.token_deleted_index:
        message = "a token of the user was deleted meanwhile, which may be this one: make another one"
        raise Rejected(ErrorCode.STALE_USER, message)
    if len(user.tokens) >= limits.MAX_TOKENS_PER_USER:
        message = f"the user has {limits.MAX_TOKENS_PER_USER} tokens: delete some first"
        raise Rejected(ErrorCode.LIMIT_REACHED, message)
    if len(state.users.owners) >= limits.MAX_TOKENS:
        message = f"there are {limits.MAX_TOKENS} tokens of all users: delete some first"
        raise Rejected(ErrorCode.LIMIT_REACHED, message)


def create_token(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Creates a token. The user's expired ones go."""
    create = command.create_token
    user = without_expired(user_of(state, create.user), command.now_ms)
    if all(token.digest != create.digest for token in user.tokens):
        token = TokenState(create.name, create.digest, create.expires_us)
        user = replace(user, tokens=(*user.tokens, token))
    put(state, user, outcome)


def check_delete_token(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    check_level(state, IGGY)
    user = user_of(state, command.delete_token.user)
    if all(token.name != command.delete_token.name for token in user.tokens):
        raise Rejected(ErrorCode.UNKNOWN_TOKEN, f"the user has no token {command.delete_token.name}")


def delete_token(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Deletes a token, and the user's expired ones."""
    delete = command.delete_token
    user = without_expired(user_of(state, delete.user), command.now_ms)
    kept = tuple(token for token in user.tokens if token.name != delete.name)
    put(state, replace(user, tokens=kept, token_deleted_index=state.index), outcome)
