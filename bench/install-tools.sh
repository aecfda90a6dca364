#!/usr/bin/env bash
# The load generator of bench/http.py, from Debian's packages. Everything else that the benches need is in the venv.
set -euo pipefail
command -v wrk >/dev/null && { echo "wrk is there: $(command -v wrk)"; exit 0; }
command -v apt-get >/dev/null || { echo "no apt-get here; install wrk by hand" >&2; exit 1; }
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends wrk
