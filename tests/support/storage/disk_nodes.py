"""What lies on the disk of `fault_disk`: files and folders, each with what a process sees of it, what is
durable, and what changed between the two."""

import random

SECTOR_BYTES = 512


class File:
    """One file of the disk."""

    def __init__(self) -> None:
        self.data = bytearray()
        """What a read sees."""
        self.durable = bytearray()
        """What is left when all that was not synced is lost."""
        self.pending: list[tuple[int, bytes | None, int]] = []
        """Writes (position, bytes) and truncations (length, None) since the last sync, each with its number
        among the disk's changes."""

    def take_pending(self, through: int | None) -> list[tuple[int, bytes | None, int]]:
        """What a sync covers: all of it, or what was changed up to that number."""
        taken = [one for one in self.pending if through is None or one[2] <= through]
        self.pending = self.pending[len(taken) :]
        return taken

    def settle(self, chance: random.Random) -> None:
        """What of its unsynced changes survives: nothing, everything, or single sectors of single writes."""
        keep = chance.choice(("nothing", "everything", "some", "some"))
        survived = self.durable
        for position, content, _ in self.pending:
            if keep == "nothing":
                break
            if keep == "everything" or content is None:
                if keep == "everything" or chance.random() < 0.5:
                    apply(survived, position, content)
                continue
            start = 0
            while start < len(content):
                end = min(len(content), start + SECTOR_BYTES - (position + start) % SECTOR_BYTES)
                if chance.random() < 0.5:
                    apply(survived, position + start, content[start:end])
                start = end
        self.data = bytearray(survived)
        self.durable = bytearray(survived)
        self.pending.clear()


class Directory:
    """One folder of the disk."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        """What a process sees."""
        self.durable: dict[str, Node] = {}
        """What is left when all that was not synced is lost."""
        self.pending: list[NameChange] = []
        """What changed since the last sync, in its order."""

    def sync(self) -> None:
        """All changes are durable."""
        while self.pending:
            self.pending[0].keep()

    def settle(self) -> None:
        """What is not durable is lost."""
        self.pending.clear()
        self.names = dict(self.durable)


Node = File | Directory


class NameChange:
    """Names that were made, replaced or removed (None) together: all of them survive a loss of power, or none
    does."""

    def __init__(self, *names: tuple[Directory, str, Node | None]) -> None:
        self._names = names
        for folder, name, node in names:
            _set(folder.names, name, node)
            if self not in folder.pending:
                folder.pending.append(self)

    def keep(self) -> None:
        """Makes it durable, and what changed before it in the same folders, as a journal does."""
        for folder, _, _ in self._names:
            while self in folder.pending and folder.pending[0] is not self:
                folder.pending[0].keep()
        for folder, name, node in self._names:
            _set(folder.durable, name, node)
            if self in folder.pending:
                folder.pending.remove(self)


def _set(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def apply(data: bytearray, position: int, content: bytes | None) -> None:
    """A write of bytes at a position, or a truncation to that length (None)."""
    if content is None:
        if len(data) > position:
            del data[position:]
        else:
            data.extend(bytes(position - len(data)))
        return
    if len(data) < position:
        data.extend(bytes(position - len(data)))
    data[position : position + len(content)] = content
