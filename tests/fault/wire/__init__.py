"""Long runs of a worker on the wire under faults: `make wire-faults`."""
