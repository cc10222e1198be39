#!/usr/bin/env bash
# Installs Debian's postgresql, on which the tests of the service's store run too; they skip where it is missing.
# Nothing happens where it is there already, or without root. Never fails: without it everything else still runs.
set -uo pipefail

say() { echo "postgres: $*" >&2; }

if compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || command -v initdb >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "not installed; its tests are skipped"
    exit 0
fi
say "installing postgresql"
# A cluster of the system's own is not wanted: the tests start theirs.
mkdir -p /etc/postgresql-common/createcluster.d
echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/ttopt.conf
{ apt-get install -y --no-install-recommends postgresql || { apt-get update && apt-get install -y --no-install-recommends postgresql; }; } >/dev/null 2>&1 \
    || say "could not install postgresql; its tests are skipped"
exit 0
