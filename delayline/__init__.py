"""The shared vocabulary of Delayline: no sockets, no threads, no disk.

Everything here means the same to the HTTP API, the wire proxies, the delay service and the reconcile job.
"""

__version__ = "0.2.0"
