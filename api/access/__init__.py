"""Who a request is from, by the key that it presents, and what the rules allow."""
