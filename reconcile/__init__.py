"""The Spark job that proves that what was buffered was delivered, or names what was not.

    entry.py     from settings to a run; exits.py: how the commands end; progress.py: how far a run is

    readers/     buffer topics, audit topic, target topics -> rows, from Kafka, RocketMQ, the embedded queue, or
                 Parquet
    frames/      what those rows hold (schemas.py), and the few of them that need no Spark

    spark/       rows by the million, and both together:
      counting.py  the rows of a run, staged; cells.py: counts and XORs of both sides, by window and bucket
      lookup.py    the rows behind suspect cells; timing.py: re-appends whose times may be wrong
      judging.py   the windows of a run; pairing.py, against.py, targets.py: the same of acts, and of topics
      session.py   Spark in this process; connect.py: Spark as a server elsewhere

    logic/       plain Python, record by record:
      plan.py      what a queue holds; planning.py: what a run reads of it; manifest.py: what it leaves to the next
      partitions.py  how a ledger numbers partitions whose names are no numbers
      closing.py   which windows can be judged; advance.py: from one manifest to the next
      ledger.py    the quantities of the ledger: windows, buckets, categories
      testimony.py what has been read of a record; row_kind.py: the kind of a row, as a number
      suspects.py  cells that do not add up; places.py: what is wrong at one place; skips.py: what is excused
      times.py     what is wrong with the times of what carries a message on
      acts.py      what operations did, commit by commit; windows.py: what a window adds up to

    directory/   the protocol: what is written when (runs.py), and what it rests on
    report/      the page, the metrics, the plan of repairs; summing.py: the summary of a run
    notices.py   webhooks and metrics of a run that has ended
    repair.py    lost messages, put into the log again; export.py: findings and windows for warehouses

Every record of a buffer topic has exactly one outcome row once its due window is closed: that sentence, with the
links between re-appended records, is what the job checks.
"""
