"""Queries and changes of the cluster: topics, buffers, offsets of groups, sizes of batches."""
