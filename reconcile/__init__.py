"""The Spark job that proves that what was buffered was delivered, or names what was not.

    readers/     buffer topics, audit topic, target topics -> rows, from Kafka, the embedded queue, or Parquet
    schemas.py   what those rows hold
    runs.py      the protocol: what is written when; lock.py, files.py, hadoop_files.py: what it rests on
    plan.py      what a queue holds; planning.py: what a run reads of it; manifest.py: what it leaves to the next
    closing.py   which windows can be judged; advance.py: from one manifest to the next
    ledger.py    the quantities of the ledger: windows, buckets, categories

    Spark, rows by the million:
    counting.py  the rows of a run, staged; cells.py: what is said twice of the records of a window and a bucket
    lookup.py    the rows behind suspect cells; timing.py: re-appends whose times may be wrong
    targets.py   the rows of the topics themselves

    plain Python, record by record:
    testimony.py what has been read of a record; said.py: what a row says, as a number
    suspects.py  cells that do not add up; places.py: what is wrong at one place; skips.py: what is excused
    times.py     what is wrong with the times of what carries a message on
    acts.py      what operations did, commit by commit; windows.py: what a window adds up to

    judging.py   both together; pairing.py, against.py: the same of acts, and of topics
    parquet_store.py     Parquet below the output directory; tables.py: small tables without Spark

    notices.py   who is told how a run has ended
    exits.py     how the commands end; progress.py: how far a run is
    session.py   Spark in this process; connect.py: Spark as a server elsewhere
    export.py    findings and windows -> tables for warehouses

Every record of a buffer topic has exactly one outcome row once its due window is closed: that sentence, with the
links between re-appended records, is what the job checks.
"""
