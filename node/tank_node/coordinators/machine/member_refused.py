"""A request of a group's member that is refused."""

from tank_node.coordinators.machine.group_error import GroupError


class MemberRefused(Exception):
    """Why; the message is for people."""

    def __init__(self, error: GroupError, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message
