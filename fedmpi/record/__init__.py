"""The HDF5 record of a run; you need not open this folder to understand the algorithm. Its entry points: `RecordWriter`
writes a record, `open_record` reads one, `find_earlier_run` finds the one to resume, `schema.py` declares the contents.
"""

from fedmpi.record.checkpoint import Checkpoint, checkpoint_path, read_checkpoint, remove_checkpoint, write_checkpoint
from fedmpi.record.lock import Lock
from fedmpi.record.reader import Record, is_record, open_record
from fedmpi.record.resume import EarlierRun, find_earlier_run
from fedmpi.record.writer import RecordWriter, refuse_existing

__all__ = [
    "Checkpoint",
    "EarlierRun",
    "Lock",
    "Record",
    "RecordWriter",
    "checkpoint_path",
    "find_earlier_run",
    "is_record",
    "open_record",
    "read_checkpoint",
    "refuse_existing",
    "remove_checkpoint",
    "write_checkpoint",
]
