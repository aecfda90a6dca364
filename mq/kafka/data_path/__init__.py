"""The data path through our own client: transactions, and what it speaks and refuses."""
