"""The errors of logs and of the data folder.

A `StorageError` concerns one partition: its catcher answers the request with an error, counts it by `reason`,
and goes on with the other partitions. A `DataFolderError` stops the process at its start.
"""

import errno


class StorageError(Exception):
    """A call that the log could not carry out. It has no effect, unless its docstring says otherwise.

    `reason` is a short word for counters, and never holds data of a client.
    """

    reason = "storage"


class DiskFull(StorageError):
    """No space is left: nothing was stored. Reads go on, and writes succeed again when there is space."""

    reason = "disk_full"


class TooManyOpenFiles(StorageError):
    """The process or the machine has no file descriptor left, even after all unpinned ones were closed."""

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
    """A replica's log differs from its leader's below the high-water mark: it takes no more writes."""

    reason = "log_diverged"


class LogClosed(StorageError):
    """The log was closed or deleted."""

    reason = "log_closed"


class DataFolderError(Exception):
    """The data folder cannot be used. The message is one sentence that says what to do."""

    reason = "data_folder"

    @staticmethod
    def of_system(path: str, error: OSError) -> "DataFolderError":
        """The error for an OSError at the opening of the folder, with advice."""
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
