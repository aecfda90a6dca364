"""How RocksDB keeps an index: bounded memory, and tables that are asked for by key."""

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options

MEMORY_BYTES_MIN = 8 << 20


def options_of(memory_bytes_max: int, *, statistics: bool) -> Options:
    """Three memtables of an eighth each, a quarter for blocks, indexes and filters; the rest is for compactions and
    what the allocator does not give back."""
    memory = max(memory_bytes_max, MEMORY_BYTES_MIN)
    memtable = memory // 8
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(memtable)
    options.set_max_write_buffer_number(3)
    options.set_target_file_size_base(memtable)
    options.set_max_bytes_for_level_base(4 * memtable)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_open_files(512)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_block_based_table_factory(_tables(memory // 4))
    if statistics:
        options.enable_statistics()
    return options


def _tables(cache_bytes: int) -> BlockBasedOptions:
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(cache_bytes))
    tables.set_block_size(16 << 10)
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    tables.set_bloom_filter(10, block_based=False)
    return tables
