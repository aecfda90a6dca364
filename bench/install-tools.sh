#!/usr/bin/env bash
# What the benches use beside the venv: wrk, the load generator of bench/http.py, from Debian's packages; and
# nats-server, the peer of bench/kafka_instant.py, by Go into the ignored .cache/tools. Each where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=0

install_wrk() {
    command -v apt-get >/dev/null || { echo "no apt-get here; install wrk by hand" >&2; return 1; }
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends wrk
}

install_nats() {
    command -v go >/dev/null || { echo "no go here; install nats-server by hand" >&2; return 1; }
    GOBIN="$PWD/.cache/tools" go install github.com/nats-io/nats-server/v2@latest
}

if command -v wrk >/dev/null; then echo "wrk is there"; else install_wrk || missing=1; fi
if [ -x .cache/tools/nats-server ] || command -v nats-server >/dev/null; then
    echo "nats-server is there"
else
    install_nats || missing=1
fi
exit "$missing"
