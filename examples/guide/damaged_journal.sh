#!/usr/bin/env bash
# One byte of a journal changes at rest: the broker refuses to start on it, and a salvaged copy saves the rest.
set -eu
directory=$(mktemp -d)
broker= # the process id of the broker under way
trap 'kill -KILL "$broker" 2>/dev/null || true; rm -rf "$directory"' EXIT

start_broker() { # on the directory given; its first line on stdout says where it is
  rm -f "$directory/ready"
  mkfifo "$directory/ready"
  embedbroker run --port 0 --data "$1" --json > "$directory/ready" &
  broker=$!
  read -r line < "$directory/ready"
  EMBEDBROKER_URL=$(sed 's/.*"url": "\([^"]*\)".*/\1/' <<< "$line")
  export EMBEDBROKER_URL
}

stop_broker() {
  kill -TERM "$broker"
  wait "$broker"
}

start_broker "$directory/data"
embedbroker send orders one two three
stop_broker

# The text of the second message begins somewhere in the first segment; its first letter becomes a question mark.
segment=$directory/data/segment-0000000001.journal
offset=$(grep --byte-offset --only-matching --text --max-count=1 -P 't\x00w\x00o' "$segment" | cut -d: -f1)
printf '?' | dd of="$segment" bs=1 seek="$offset" conv=notrunc status=none

embedbroker journal verify "$directory/data" || echo "exit code $?"
embedbroker run --port 0 --data "$directory/data" 2>&1 || echo "exit code $?"
embedbroker journal repair "$directory/data" "$directory/copy"

start_broker "$directory/copy"
embedbroker receive orders --count 0 --timeout 0.2
stop_broker
