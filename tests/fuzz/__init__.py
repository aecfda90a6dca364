"""Hostile input for every entrance: what anybody who reaches it may send, at random, from a printed seed.

Each entrance is a `Campaign` (campaign.py). Its judge knows nothing of the input: the process lives, its memory stays
under a bound, nothing but documented errors comes back, and the next good message of another client is delivered in
time. `make fuzz` runs all of them for as long as is asked; `test_short.py` each of them for a few seconds.
"""
