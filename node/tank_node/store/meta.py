"""`meta.json`: the identity of a data folder. Pure but for `MetaFile` and `open_meta`."""

import contextlib
import errno
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from tank_node.disk import Disk, read_file, replace_file
from tank_node.segment.errors import DataFolderError, NewerFormat
from tank_protos.feature_levels import KAFKA, OWN, formats

FORMAT = formats(OWN.highest).data_folder
"""The newest layout of a data folder that this version reads and writes."""
KAFKA_LAYOUT = formats(KAFKA).data_folder
"""The layout of a folder with logs of Kafka's record batches."""
NEW_FOLDER = formats(OWN.lowest).data_folder
"""The layout of a new data folder: the oldest, because the cluster's feature level is not known yet."""

_FILE_BYTES = 1024
"""The size of the file, filled up with spaces, and of the spare one, which takes its place on a full disk."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(slots=True, frozen=True)
class Meta:
    """The cluster and broker that a folder belongs to, its layout, and its last use."""

    format: int
    cluster_id: str
    broker_id: int
    disk_uuid: str
    boot_id: str = ""
    """The machine's boot id while a process uses the folder; empty after an orderly stop."""
    broker_epoch: int = 0
    """The epoch of the last registration known to be committed; 0: there was none. It is written before the
    process takes part in the cluster: if the controllers know another epoch, the folder was restored from an
    earlier state."""


def encode_meta(meta: Meta) -> bytes:
    """Encodes the file's content as indented JSON."""
    return (json.dumps(asdict(meta), indent=2) + "\n").encode()


def decode_meta(content: bytes, path: str) -> Meta:
    """Decodes the file's content. Raises NewerFormat or DataFolderError, with a sentence for the user."""
    try:
        fields = json.loads(content)
        format_ = fields["format"]
        if not isinstance(format_, int):
            raise TypeError("format")
        if format_ > FORMAT:
            raise NewerFormat(
                f"{path} has format {format_}, written by a newer version, and this one knows {FORMAT}: "
                "start the newer version, or choose another data folder"
            )
        return Meta(
            format_,
            str(fields["cluster_id"]),
            int(fields["broker_id"]),
            str(fields["disk_uuid"]),
            str(fields.get("boot_id", "")),
            int(fields.get("broker_epoch", 0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DataFolderError(
            f"{path} cannot be read ({error!r}): restore it, or choose another data folder"
        ) from error


class MetaFile:
    """The file itself, replaced atomically, and a spare file of the same size: on a full disk a broker that
    is started again writes its registration into that one, which needs no room, and gives it the name. Else
    it could not take part, and what it alone has could not be read."""

    __slots__ = ("_disk", "_spare", "meta", "path")

    def __init__(self, disk: Disk, path: str, meta: Meta) -> None:
        self._disk = disk
        self.path = path
        self._spare = os.path.join(os.path.dirname(path), "meta.spare")
        self.meta = meta

    @classmethod
    def load(cls, disk: Disk, path: str) -> "MetaFile | None":
        """Reads the file; None when there is none. Raises NewerFormat or DataFolderError."""
        try:
            return cls(disk, path, decode_meta(read_file(disk, path), path))
        except FileNotFoundError:
            return None

    def store(self, **changes: object) -> None:
        """Writes the file with some fields changed. Raises OSError."""
        meta = replace(self.meta, **changes)  # type: ignore[arg-type]
        content = encode_meta(meta).ljust(_FILE_BYTES)
        try:
            self._replace(self.path, content)
        except OSError as error:
            fits = len(content) == _FILE_BYTES and self._disk.exists(self._spare)
            if error.errno != errno.ENOSPC or not fits:
                raise
            self._use_spare(content)
        self.meta = meta
        if not self._disk.exists(self._spare):
            with contextlib.suppress(OSError):  # there will be room later
                self._replace(self._spare, b" " * _FILE_BYTES)

    def _replace(self, path: str, content: bytes) -> None:
        try:
            replace_file(self._disk, path, content)
        except OSError:
            with contextlib.suppress(OSError):  # what is left of it has room that others need
                self._disk.remove(path + ".new")
            raise

    def _use_spare(self, content: bytes) -> None:
        fd = self._disk.open(self._spare)
        try:
            self._disk.write_at(fd, [content], 0)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)
        self._disk.rename(self._spare, self.path)
        self._disk.sync_folder(os.path.dirname(self.path))


def machine_boot_id() -> str:
    """The machine's boot id, which changes with every start of the machine; empty where it is unknown."""
    try:
        with open(_BOOT_ID) as file:
            return file.read().strip()
    except OSError:
        return ""


def open_meta(
    disk: Disk, path: str, cluster_id: str, broker_id: int | None, new_uuid: Callable[[], str]
) -> MetaFile:
    """Reads the folder's meta file, or makes a new one, and checks whose it is. Only for `DataFolder.open`,
    which holds the lock. Raises NewerFormat or DataFolderError, with a sentence for the user, or OSError.
    """
    meta_path = os.path.join(path, "meta.json")
    meta_file = MetaFile.load(disk, meta_path)
    if meta_file is None:
        if disk.entries(os.path.join(path, "topics")):
            raise DataFolderError(f"{meta_path} is missing though there are topics: restore it from a backup")
        meta = Meta(NEW_FOLDER, cluster_id or new_uuid(), broker_id or 0, new_uuid())
        meta_file = MetaFile(disk, meta_path, meta)
        meta_file.store()
    meta = meta_file.meta
    if cluster_id and meta.cluster_id != cluster_id:
        raise DataFolderError(
            f"the data folder {path} belongs to cluster {meta.cluster_id}, not {cluster_id}: "
            "choose another folder"
        )
    if broker_id is not None and meta.broker_id != broker_id:
        raise DataFolderError(
            f"the data folder {path} belongs to broker {meta.broker_id}, not {broker_id}: "
            "choose another folder"
        )
    return meta_file
