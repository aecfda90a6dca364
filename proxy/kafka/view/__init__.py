"""What clients see of the cluster: our addresses and versions, and no hidden topics."""
