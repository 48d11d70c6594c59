#!/bin/bash
# http_ok.sh HOST PORT PATH [TEXT]: succeeds where a GET is answered with 200, and with TEXT in its
# body. It costs milliseconds; a Python of its own would disturb what is measured on this machine.
set -u

exec 3<>"/dev/tcp/$1/$2" || exit 1
printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$3" "$1" >&3
answer=$(timeout 8 cat <&3) || exit 1
[[ $answer == HTTP/1.?\ 200\ * && $answer == *"${4-}"* ]]
