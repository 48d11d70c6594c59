#!/bin/bash
# What the official image documents: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, each also as a
# file's name in …_FILE; POSTGRES_HOST_AUTH_METHOD, POSTGRES_INITDB_ARGS, PGDATA, first-start scripts.
set -euo pipefail

fail() {
    echo "postgres: $1" >&2
    exit 1
}

# Root may read a secret that the server's user may not, so it is read before root is left.
read_file_of() {
    local name=$1 file=$1_FILE
    [[ -n ${!file:-} ]] || return 0
    [[ -z ${!name:-} ]] || fail "both $name and $file are set: keep one"
    [[ -r ${!file} ]] || fail "$file names ${!file}, which uid $(id -u) can't read"
    export "$name=$(<"${!file}")"
    unset "$file"
}

first_start() {
    local user=${POSTGRES_USER:-postgres} password=${POSTGRES_PASSWORD:-} arguments script
    local database=${POSTGRES_DB:-$user} method=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
    [[ -n $password || $method == trust ]] \
        || fail "no password for the superuser: set POSTGRES_PASSWORD_FILE or POSTGRES_PASSWORD"
    read -ra arguments <<<"${POSTGRES_INITDB_ARGS:-}"
    if [[ -n $password ]]; then
        arguments+=("--pwfile=/dev/fd/3")
    fi
    initdb --username="$user" "${arguments[@]}" 3<<<"$password"
    echo "host all all all $method" >>"$PGDATA/pg_hba.conf"

    # On the socket alone: nobody from outside meets a server that is not ready yet.
    PGPASSWORD=$password pg_ctl --options="-c listen_addresses=''" --wait start
    export PGUSER=$user PGPASSWORD=$password
    if [[ $database != postgres ]]; then
        psql --dbname=postgres --set=ON_ERROR_STOP=1 --set=name="$database" <<<'CREATE DATABASE :"name"'
    fi
    for script in /docker-entrypoint-initdb.d/*; do
        case $script in
            *.sh) bash "$script" ;;
            *.sql) psql --dbname="$database" --set=ON_ERROR_STOP=1 --file="$script" ;;
        esac
    done
    pg_ctl --mode=fast --wait stop
    unset PGUSER PGPASSWORD
}

if [[ ${1:-} == -* ]]; then
    set -- postgres "$@"
fi
if [[ ${1:-} != postgres ]]; then
    exec "$@"
fi
for name in POSTGRES_USER POSTGRES_PASSWORD POSTGRES_DB POSTGRES_INITDB_ARGS; do
    read_file_of "$name"
done
mkdir -p "$PGDATA"
if (($(id -u) == 0)); then
    find "$PGDATA" /var/run/postgresql ! -user postgres -exec chown postgres:postgres {} +
    chmod 0700 "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$0" "$@"
fi
if [[ ! -s $PGDATA/PG_VERSION ]]; then
    first_start
fi
exec "$@"
