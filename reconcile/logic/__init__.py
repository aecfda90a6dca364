"""What is read, claimed and found wrong, as plain Python: no Spark, no files."""
