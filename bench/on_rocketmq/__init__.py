"""What the RocketMQ benches share.

place.py    a topic, and what has been delivered into it
rig.py      a broker, the worker, and messages
worker.py   a process beside the bench: the real worker on RocketMQ
sender.py   such a process: messages for the worker, for the broker's timer, or for its delay levels
peer.py     such a process: RocketMQ's own Java client
"""
