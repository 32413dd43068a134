"""What the log raises when the disk, or what lies on it, does not do what it should.

Every error here concerns one partition (or the start of the process, for the folder's): whoever catches one
answers the request with an error, counts it by `reason` and goes on with the other partitions.
"""

import errno


class StorageError(Exception):
    """A request that the log could not carry out. Nothing of it exists afterwards unless the docstring says
    so.

    `reason` is a short word for counters; it never holds data of a client.
    """

    reason = "storage"


class DiskFull(StorageError):
    """No space left: nothing was stored, reads go on, and the same write works again when there is room."""

    reason = "disk_full"


class TooManyOpenFiles(StorageError):
    """The process or the machine has no file descriptor left, though all that could be closed were closed."""

    reason = "too_many_open_files"


class DiskFailed(StorageError):
    """The disk refused a write or an fsync. The partition takes no more writes until it is opened anew."""

    reason = "disk_failed"


class LogFailed(StorageError):
    """The partition stopped taking writes after an earlier error, which the message names."""

    reason = "log_failed"


class LogDamaged(StorageError):
    """Stored batches are missing or do not match their checksums; the message says which."""

    reason = "log_damaged"


class LogDiverged(StorageError):
    """A replica holds something else than its leader where both must be the same: it takes no more writes."""

    reason = "log_diverged"


class LogClosed(StorageError):
    """The log was closed or deleted."""

    reason = "log_closed"


class DataFolderError(Exception):
    """The data folder cannot be used. The message is one sentence that says what to do."""

    reason = "data_folder"

    @staticmethod
    def of_system(path: str, error: OSError) -> "DataFolderError":
        """What the system said when the folder was opened."""
        advice = (
            "make room there; nothing of it was changed"
            if error.errno == errno.ENOSPC
            else "let this user write there, or choose another folder with --data"
        )
        return DataFolderError(f"cannot use the data folder {path} ({error.strerror}): {advice}")


class DataFolderInUse(DataFolderError):
    """Another process holds the folder's lock."""

    reason = "data_folder_in_use"


class NewerFormat(DataFolderError):
    """The folder was written by a newer version of the program."""

    reason = "newer_format"
