#!/bin/sh
# Airflow opens its password file for writing, which fails on a mounted secret: it gets a copy in memory.
set -eu

passwords=/run/secrets/airflow_passwords
if [ -e "$passwords" ]; then
  (umask 077 && cat "$passwords" >"$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE")
fi
# With PROFILE=aws another user of the same group writes the logs too.
umask 002
exec "$@"
