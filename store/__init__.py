"""The time index: what is pending, ordered by due time. A cache of the queue that can be thrown away."""
