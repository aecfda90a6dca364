"""Certificates of 127.0.0.1 for tests, each signed by itself."""

import subprocess
from pathlib import Path


def make_certificate(folder: Path, name: str, subject: str) -> None:
    """NAME.key and NAME.crt in the folder, good for two days, and both in NAME.pem, the key first."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={subject}"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key", "-out", f"{name}.crt"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    pem = (folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text()
    (folder / f"{name}.pem").write_text(pem)
