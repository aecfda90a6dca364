"""A Kerberos realm on this machine: MIT's KDC (`krb5kdc`, `kdb5_util`, `kadmin.local`) in a folder of its own."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.brokers.distribution import Unavailable
from tests.brokers.guarded import Guarded
from tests.ports import free_port, is_listening

REALM = "DELAYLINE.TEST"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
START_S = 20.0
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Realm:
    """`config` is for KRB5_CONFIG."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "krb5.conf"
        self._folder = folder
        port = free_port()
        self.port = port
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
            f"  acl_file = {folder}/acl\n  max_life = 1h\n  supported_enctypes = aes256-cts:normal\n }}\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        return {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self._folder / "kdc.conf"), "PATH": PATH}

    def run(self, *command: str) -> None:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"{command[0]}: {done.stderr.strip()[-300:]}")

    def keytab(self, principal: str) -> Path:
        """Of a principal that is made."""
        file = self._folder / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        self.run("kadmin.local", "-r", REALM, "ktadd", "-k", str(file), principal)
        return file


@contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    """Raises Unavailable where there is no KDC to start."""
    if missing := [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]:
        raise Unavailable(f"no {', '.join(missing)} (Debian: krb5-kdc and krb5-admin-server)")
    made = Realm(folder)
    made.run("kdb5_util", "-r", REALM, "create", "-s", "-P", "of-the-realm")
    process = Guarded(folder / "kdc.log")
    process.start(["krb5kdc", "-n", "-r", REALM], {**os.environ, **made.environment})
    try:
        until_s = time.monotonic() + START_S
        while not is_listening(made.port):
            if not process.running or time.monotonic() > until_s:
                raise Unavailable(f"the KDC did not start; see {process.log}")
            time.sleep(0.05)
        yield made
    finally:
        process.signal(signal.SIGTERM)
        process.wait(START_S)
