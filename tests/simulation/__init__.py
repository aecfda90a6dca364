"""Seeded simulations of the core: crashes, takeovers and lost answers at every step, judged from outside.

    history.py    facts, and nothing else: what the checker gets
    checker/      the judge; imports nothing of the service, and can be handed the history of a real queue as well
    traffic.py wishes.py    what clients send, and what must become of it by their own reckoning
    broker.py     a queue with holes, open client transactions, a clock that jumps and commits that hang
    disk.py       a worker's disk, which a crash throws back to any state that it once had
    facts.py      from the bytes of a commit to facts, by the documented formats
    scene.py worker.py world.py    who plays, in which order, under which seed
    habits.py     how often each step is taken, and which situations a search must have met
    mutants.py    breakages of the core, each of which must be caught (see tests/mutation)
    run.py        the search: `make simulate`
    test_*.py     a short search, the judge judged, every mutant, and some seeds on RocksDB

How to read a trace (`python -m tests.simulation.run SEED`, with a mutant's number behind it to run that mutant):

    25600252 a.2 takes orders.0 epoch 4: 3 deliveries, 0 dead, 1 appends, O=19 D=(25600101, 6) L=4
    |        |         |               |                                  the cursor that this batch will commit
    |        |         |               what it holds: deliveries, dead letters, records for the buffer
    |        |         the shard
    |        the worker: `a` in its third life (each crash begins another)
    the broker's clock, its last eight digits, in milliseconds

`append` lines are clients (`due +20`: 20 ms after acceptance). `takes` is a batch that left the core; `COMMIT` is
the moment at which the broker applied one, with the buffer records that it wrote. Anything may stand between the
two, and without a `COMMIT` the batch never became true. `on the wire` is a commit that arrived after its sender had
stopped waiting. After `--- drain` no more faults happen. The last lines, `BROKEN ...`, are the checker's: the first
one is the cause, the others usually follow from it. `fact 31` is the 32nd entry of the history.

To find out why, go up from the `COMMIT` at which the rule broke to the last `takes ... over` of the same shard: what
was reused, from where it was read again, and which name or cursor the reader did not obey.
"""
