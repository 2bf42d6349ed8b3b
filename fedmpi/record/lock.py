"""One job per record: a lock that the operating system releases when the process ends, in whatever way."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import sys
from pathlib import Path

from fedmpi.errors import RecordError

# Error numbers of file systems without locks.
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


class Lock:
    """The lock on a record, from construction until `release` or the end of the process.

    It is a lock on a file beside the record, which names the holder. It works between hosts if the locks of the file
    system do (NFS, Lustre mounted with flock, GPFS). On a file system without locks a warning is printed.
    """

    def __init__(self, record: Path) -> None:
        self.path = record.with_name(f"{record.name}.lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.handle = self._acquire(record)
        except OSError as error:
            raise RecordError(f"cannot write {self.path}: {error.strerror or error}") from None

    def _acquire(self, record: Path) -> int:
        """The handle of the locked file; a RecordError if another job has it."""
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(handle, 200).decode(errors="replace").strip()
                os.close(handle)
                raise RecordError(
                    f"{record} is being written by another job ({holder or 'unknown'}): wait for it, or choose "
                    "another -o FILE"
                ) from None
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    os.close(handle)
                    raise
                print(
                    f"fedmpi: warning: {self.path.parent} has no file locks: start no second job there", file=sys.stderr
                )
            if self._is_ours(handle):
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {platform.node()}".encode(), 0)
                return handle
            os.close(handle)

    def _is_ours(self, handle: int) -> bool:
        """Whether the handle is still of the file at our path: its last holder may have removed it meanwhile."""
        try:
            return os.path.samestat(os.fstat(handle), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Remove the lock's file and release the lock."""
        if self.handle >= 0:
            self.path.unlink(missing_ok=True)
            os.close(self.handle)
            self.handle = -1
