"""The operations of the HTTP API about users and their tokens. No answer has what proves a login."""

from collections.abc import Callable

from tank_controller.api.changes import Changes, afterwards
from tank_controller.api.errors import refused
from tank_controller.api.iggy.shown import page, user_json
from tank_controller.api.leader import Leader
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.errors import Json, invalid
from tank_protos.http_api.fields import Values
from tank_protos.http_api.operations import ApiRequest
from tank_protos.users.permissions import Permissions
from tank_protos.users.rights_text import RightsTextError, births_of, parse_permissions
from tank_protos.users.tokens import is_expired

_SERVER = "server"


class IggyUsers:
    """The operations. Each raises ApiError."""

    def __init__(self, leader: Leader, changes: Changes, now_ms: Callable[[], int]) -> None:
        self._leader = leader
        self._changes = changes
        self._now_ms = now_ms

    # --- reads ---

    async def users(self, asked: ApiRequest) -> Json:
        """A page of users."""
        shown, after = page(await self._leader.users(), asked.query, lambda each: each.number)
        return {"users": [user_json(each) for each in shown], "next": after}

    async def user(self, asked: ApiRequest) -> Json:
        """One user."""
        return user_json(await self._user(asked.path.text("user")))

    async def tokens(self, asked: ApiRequest) -> Json:
        """The tokens of a user that have not expired."""
        user, now_us = await self._user(asked.path.text("user")), self._now_ms() * 1000
        tokens: list[Json] = [
            {"name": each.name, "expires_us": each.expires_us or None}
            for each in user.tokens
            if not is_expired(each.expires_us, now_us)
        ]
        return {"user": user.name, "tokens": tokens}

    # --- changes ---

    async def create(self, asked: ApiRequest) -> Json:
        """Creates a user, who is not the root user."""
        body = asked.body
        create = pb.CreateUser(
            name=body.text("user"), password_hash=body.text("password_hash"), inactive=not body.flag("active")
        )
        given = _permissions(body)
        if given is not None:
            create.permissions = given.encode()
            create.births.extend(births_of(given, await self._leader.iggy_names()))
        await self._changes.command(pb.Command(create_user=create))
        return user_json(await afterwards(self._user(create.name)))

    async def update(self, asked: ApiRequest) -> Json:
        """Changes what the body names, one after the other."""
        body = asked.body
        fields = ("name", "active", "password_hash", "permissions")
        if not any(field in body for field in fields):
            raise invalid(f"say one of `{'`, `'.join(fields)}`")
        given = _permissions(body)
        user = await self._user(asked.path.text("user"))
        ref = pb.UserRef(number=user.number, born=user.born)
        if "name" in body or "active" in body:
            change = pb.UpdateUser(user=ref)
            if "name" in body:
                change.name = body.text("name")
            if "active" in body:
                change.inactive = not body.flag("active")
            await self._changes.command(pb.Command(update_user=change))
        if "password_hash" in body:
            password = pb.ChangePassword(user=ref, password_hash=body.text("password_hash"))
            await self._changes.command(pb.Command(change_password=password))
        if "permissions" in body:
            rights = pb.UpdatePermissions(user=ref)
            if given is not None:
                rights.permissions = given.encode()
                rights.births.extend(births_of(given, await self._leader.iggy_names()))
            await self._changes.command(pb.Command(update_permissions=rights))
        name = body.text("name") if "name" in body else user.name
        return user_json(await afterwards(self._user(name)))

    async def delete(self, asked: ApiRequest) -> Json:
        """Deletes a user with its tokens."""
        user = await self._user(asked.path.text("user"))
        ref = pb.UserRef(number=user.number, born=user.born)
        await self._changes.command(pb.Command(delete_user=pb.DeleteUser(user=ref)))
        return {"deleted": user.name}

    async def delete_token(self, asked: ApiRequest) -> Json:
        """Deletes a token."""
        user, name = await self._user(asked.path.text("user")), asked.path.text("token_name")
        ref = pb.UserRef(number=user.number, born=user.born)
        await self._changes.command(pb.Command(delete_token=pb.DeleteToken(user=ref, name=name)))
        return {"deleted": name, "user": user.name}

    async def _user(self, name: str) -> pb.User:
        for each in await self._leader.users():
            if each.name == name:
                return each
        raise refused(ErrorCode.UNKNOWN_USER, f"there is no user {name}")


def _permissions(body: Values) -> Permissions | None:
    """What the body says of permissions; None: nothing, or none. Raises ApiError."""
    by_place = {place: rights or "" for place, rights in body.settings("permissions").items()}
    if not by_place:
        return None
    everywhere = by_place.pop(_SERVER, "")
    streams = [f"{place}:{rights}" for place, rights in by_place.items() if "/" not in place]
    topics = [f"{place}:{rights}" for place, rights in by_place.items() if "/" in place]
    try:
        return parse_permissions(everywhere, streams, topics)
    except RightsTextError as error:
        raise invalid(str(error)) from None
