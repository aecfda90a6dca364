"""Processes beside a bench.

child.py     started, asked, ended
working.py   the real worker over the real adapter of a broker
"""
