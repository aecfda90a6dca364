"""What the RocketMQ benches share: RocketMQ's own Java client, in a process beside the bench."""
