"""What the benches that go through the HTTP API share.

server.py   `delayline serve`, or another server, as a process of its own
flow.py     a steady flow of messages through the API, and how late each of them came
ask.py      requests, one after the other, and how long each took
"""
