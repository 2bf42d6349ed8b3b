"""The run file (HDF5): one table says what is in it, one writer fills it, one reader reads it. Beside it: a lock while
it is written, and a checkpoint to go on from."""

from fedmpi.record.checkpoint import Checkpoint, checkpoint_path, read_checkpoint, remove_checkpoint, write_checkpoint
from fedmpi.record.lock import Lock
from fedmpi.record.reader import Record, is_record, open_record
from fedmpi.record.resume import Past, find_past
from fedmpi.record.writer import RecordWriter, refuse_existing

__all__ = [
    "Checkpoint",
    "Lock",
    "Past",
    "Record",
    "RecordWriter",
    "checkpoint_path",
    "find_past",
    "is_record",
    "open_record",
    "read_checkpoint",
    "refuse_existing",
    "remove_checkpoint",
    "write_checkpoint",
]
