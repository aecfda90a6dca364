"""What the benches of rolling share.

lap.py     a worker in this process, short messages through it and long ones among them, and samples meanwhile
curve.py   the samples as a table and a small plot, and how flat they are
"""
