"""The loop around the shards of a process: assignment, dispatch, maintenance, stalls."""
