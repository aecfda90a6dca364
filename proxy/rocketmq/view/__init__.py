"""What clients see of the cluster: ports of the proxy in the place of brokers' addresses. Pure."""
