"""From a request to records in the queue, and to their outcomes."""
