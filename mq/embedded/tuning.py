"""How RocksDB keeps a log: values of 64 KiB, written once, read in order, deleted from the front."""

import tempfile
from pathlib import Path

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, Options

MIB = 1 << 20
MEMTABLE_BYTES = 32 * MIB

_VERIFYING = """\
[Version]
  rocksdb_version=9.8.4
  options_file_version=1.1
[DBOptions]
  track_and_verify_wals_in_manifest={verify}
[CFOptions "default"]
[TableOptions/BlockBasedTable "default"]
"""
"""The binding has no method for this option, but reads files of options."""


def options(*, create: bool = False, salvage: bool = False) -> Options:
    """For the log. RocksDB knows then which write-ahead logs it needs, and how long they were when they were closed;
    one that is missing or was cut makes opening fail. `salvage` takes what can still be read instead.

    RocksDB stalls writers that outrun its flushes and compactions, and a stall in `Rdict.write` would hold the
    interpreter's lock. So there is room for 8 memtables, and level 0 may grow: readers of a log do not mind.
    """
    chosen = _read(_VERIFYING.format(verify="false" if salvage else "true"))
    chosen.create_if_missing(create)
    chosen.set_write_buffer_size(MEMTABLE_BYTES)
    chosen.set_max_write_buffer_number(8)
    chosen.set_max_total_wal_size(256 * MIB)
    chosen.set_target_file_size_base(32 * MIB)
    chosen.set_level_zero_slowdown_writes_trigger(64)
    chosen.set_level_zero_stop_writes_trigger(128)
    chosen.set_soft_pending_compaction_bytes_limit(0)
    chosen.set_hard_pending_compaction_bytes_limit(0)
    chosen.set_compression_type(DBCompressionType.lz4())
    # An acknowledged group is never dropped to make the rest readable: only a torn tail may be missing.
    tolerated = (
        DBRecoveryMode.skip_any_corrupted_record if salvage else DBRecoveryMode.tolerate_corrupted_tail_records
    )
    chosen.set_wal_recovery_mode(tolerated())
    chosen.set_keep_log_file_num(2)
    chosen.set_max_background_jobs(2)
    chosen.set_max_open_files(512)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(16 * MIB))
    chosen.set_block_based_table_factory(blocks)
    return chosen


def _read(text: str) -> Options:
    with tempfile.TemporaryDirectory(prefix="delayline-options-") as folder:
        Path(folder, "OPTIONS-000001").write_text(text)
        Path(folder, "rocksdict-config.json").write_text('{"raw_mode":true,"prefix_extractors":{}}')
        chosen, _ = Options.load_latest(folder)
    return chosen
