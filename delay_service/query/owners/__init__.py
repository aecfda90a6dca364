"""Questions about messages on their way to the worker that owns the shard, in whatever process that is.

A question is asked of `RoutedOwners`. It asks the worker of this process where that owns the shard, and else the one
that the `Directory` names, through `Remote`; there a `Listener` answers for its own worker and for no other.
"""
