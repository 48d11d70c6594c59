#!/bin/bash
# What the official image documents and docker-compose.yaml uses: POSTGRES_USER, POSTGRES_DB,
# POSTGRES_PASSWORD_FILE and PGDATA, with the server's user from the start.
set -euo pipefail

fail() {
    echo "postgres: $1" >&2
    exit 1
}

first_start() {
    [[ -r ${POSTGRES_PASSWORD_FILE:-} ]] || fail "no password for the superuser: set POSTGRES_PASSWORD_FILE"
    initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE"
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    # On the socket alone: nobody from outside meets a server that is not ready yet.
    pg_ctl --options="-c listen_addresses=''" --wait start
    createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl --mode=fast --wait stop
}

if [[ $1 == postgres && ! -s $PGDATA/PG_VERSION ]]; then
    mkdir -p "$PGDATA"
    first_start
fi
exec "$@"
