"""The run file (HDF5): one table says what is in it, one writer fills it, one reader reads it."""

from fedmpi.record.reader import Record, is_record, open_record
from fedmpi.record.writer import RecordWriter, refuse_existing

__all__ = ["Record", "RecordWriter", "is_record", "open_record", "refuse_existing"]
