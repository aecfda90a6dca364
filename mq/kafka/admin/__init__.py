"""What the cluster is asked and told: topics, buffers, offsets of groups, sizes of batches."""
