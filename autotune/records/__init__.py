"""Records of measurements: kept in a database, exchanged as lines of JSON, found again for calls."""

from tilewright.autotune.records.lookup import Explanation, Found, Rejected
from tilewright.autotune.records.record import Key, Record, key_of, record_of
from tilewright.autotune.records.records import Merged, Records

__all__ = ["Explanation", "Found", "Key", "Merged", "Record", "Records", "Rejected", "key_of", "record_of"]
