#!/usr/bin/env bash
# A broker as a process, messages sent and read by hand, a kill, and a look at its journal.
set -eu
directory=$(mktemp -d)
broker= # the process id of the broker under way
trap 'kill -KILL "$broker" 2>/dev/null || true; rm -rf "$directory"' EXIT

start_broker() { # its first line on stdout says where it is
  rm -f "$directory/ready"
  mkfifo "$directory/ready"
  embedbroker run --port 0 --data "$directory/data" --json > "$directory/ready" &
  broker=$!
  read -r line < "$directory/ready"
  EMBEDBROKER_URL=$(sed 's/.*"url": "\([^"]*\)".*/\1/' <<< "$line")
  export EMBEDBROKER_URL # for send, receive and browse
}

start_broker
embedbroker send orders "two coffees" "one tea" --property table=7
embedbroker browse orders
embedbroker receive orders --selector "table = 7" --headers

kill -KILL "$broker"
wait "$broker" || true
embedbroker journal verify "$directory/data" | tail -n 2

start_broker
embedbroker receive orders
embedbroker receive orders --timeout 0.1 || echo "exit code $?"
kill -TERM "$broker"
wait "$broker"
