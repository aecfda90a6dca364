"""Reading a planned part of a partition, for the reconcile job."""
