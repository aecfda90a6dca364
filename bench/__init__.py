"""Measurements: `python -m bench [names]`, every figure that the documents quote.

A bench is a module of this package with `run(scale: float) -> Report` (`bench.report`). `scale` multiplies its
sizes; 1 is what the documents quote. Each runs in a process of its own, so that its memory and CPU are its own.
"""
