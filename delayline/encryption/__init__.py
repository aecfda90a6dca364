"""What is written to the disk of a worker, encrypted.

    data_key.py  the data key of a directory, and the file that holds it, encrypted itself
    cipher.py    values, each bound to the place that it is written to

Decision: docs/adr/0031-encryption-at-rest.md. Format: docs/formats/encryption.md.
"""
