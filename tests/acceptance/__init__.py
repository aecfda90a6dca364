"""Delayline as its users meet it: the real process, its command line, its files, its sentences."""
