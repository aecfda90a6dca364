"""The Spark job that proves that what was buffered was delivered, or names what was not.

    readers/     buffer topics, audit topic, target topics -> rows, from Kafka, the embedded queue, or Parquet
    schemas.py   what those rows hold
    runs.py      the protocol: what is written when; lock.py, files.py, hadoop_files.py: what it rests on
    plan.py      what a queue holds; planning.py: what a run reads of it; manifest.py: what it leaves to the next
    closing.py   which windows can be judged; advance.py: from one manifest to the next
    ledger.py    the quantities of the ledger: windows, buckets, categories
    cells.py     rows -> cells: what is said twice of the records of one window and one bucket of positions
    judge.py     cells -> which are clean, which one record is missing, and what a window adds up to
    acts.py      rows of one commit -> what an operation did, and what was done without one; pairing.py: its stages
    findings.py  dirty cells, and the rows in them -> what is wrong, record by record
    session.py   Spark in this process; connect.py: Spark as a server elsewhere
    export.py    findings and windows -> tables for warehouses

Every record of a buffer topic has exactly one outcome row once its due window is closed: that sentence, with the
links between re-appended records, is what the job checks.
"""
