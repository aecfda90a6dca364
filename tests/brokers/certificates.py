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


def make_keystore(folder: Path, name: str, password: str) -> None:
    """NAME.p12 (PKCS#12) of NAME.pem."""
    command = ["openssl", "pkcs12", "-export", "-in", f"{name}.pem", "-out", f"{name}.p12"]
    subprocess.run([*command, "-passout", f"pass:{password}"], cwd=folder, check=True, capture_output=True)
