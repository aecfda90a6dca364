#!/usr/bin/env bash
# Debian's Chromium, for the tests of the console; quick where one is there already. Needs root.
set -euo pipefail
command -v chromium >/dev/null && exit 0
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
