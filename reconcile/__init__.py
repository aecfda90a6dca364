"""The Spark job that proves that what was buffered was delivered, or names what was not.

    readers/     buffer topics, audit topic, target topics -> rows, from Kafka, the embedded queue, or Parquet
    schemas.py   what those rows hold
    plan.py      what a run reads, and what a run leaves to the next one: the manifest
    ledger.py    the quantities of the ledger: windows, buckets, categories

Every record of a buffer topic has exactly one outcome row once its due window is closed: that sentence, with the
links between re-appended records, is what the job checks.
"""
