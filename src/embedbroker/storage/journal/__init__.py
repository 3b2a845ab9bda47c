"""The journal: records, batches, segments and compaction."""
