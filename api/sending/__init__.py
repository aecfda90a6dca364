"""From a request to records in the queue, and to what has become of them."""
