"""Clients of RocketMQ from packages, through the RocketMQ proxy."""
