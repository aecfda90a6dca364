"""Plays that show a part of Delayline at work, with real processes and made-up traffic.

    reconcile.py   messages get lost, and are missed: `make reconcile-demo`

No room of the product imports these; they may enter every room, to do there what no room would do.
"""
