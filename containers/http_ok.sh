#!/bin/bash
# http_ok.sh HOST PORT PATH [TEXT]: succeeds if a GET returns status 200 and a body with TEXT.
# It takes milliseconds; starting Python each time would disturb measurements on this machine.
set -u

exec 3<>"/dev/tcp/$1/$2" || exit 1
printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$3" "$1" >&3
answer=$(timeout 8 cat <&3) || exit 1
[[ $answer == HTTP/1.?\ 200\ * && $answer == *"${4-}"* ]]
