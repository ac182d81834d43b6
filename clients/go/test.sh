#!/usr/bin/env bash
# Runs everything of the Go client: generated code, format, vet, unit tests, the conformance cases against the
# program that KITH_SCRIPT names, and the README in another module and the example against the node that KITH names.
set -euo pipefail
cd "$(dirname "$0")"
root="$(cd ../.. && pwd)"
work="$root/target/clients-go"

for name in KITH KITH_SCRIPT; do
    [ -x "${!name:-}" ] || { echo "test: $name must name a program" >&2; exit 1; }
done
mkdir -p "$work"
rm -rf "$work/before" "$work/kith" "$work/hello" "$work/node"

echo "test: the generated code is that of the contract"
cp -r . "$work/before"
./generate.sh
diff -r "$work/before" .

echo "test: format and vet"
for folder in . "$root/examples/push-worker-go"; do
    (cd "$folder" && [ -z "$(gofmt -l .)" ] && go mod tidy -diff && go vet -tags conformance ./...)
done

echo "test: lines by hand, which may only become fewer"
count() { # NAME LIMIT FILE...
    local lines
    lines="$(cat "${@:3}" | grep -cvE '^\s*(//.*)?$')"
    echo "$1: $lines lines, at most $2"
    [ "$lines" -le "$2" ]
}
mapfile -t by_hand < <(grep -LE '^// Code generated' ./*.go | grep -v _test.go)
count "the client" 600 "${by_hand[@]}"
count "the runner of the cases" 249 conformance_test.go

echo "test: unit tests"
go test -count 1 -shuffle on .

echo "test: conformance"
go test -count 1 -tags conformance -run TestConformance .

echo "test: the README, in a module that imports the built one"
mkdir -p "$work/kith/clients" "$work/hello"
cp -r . "$work/kith/clients/go"
rm -rf "$work/kith/clients/go/internal" "$work"/kith/clients/go/*_test.go
block() { awk -v start="\`\`\`$1" '$0 == start { inside = 1; next } /^```/ { inside = 0 } inside' README.md; }
block go > "$work/hello/main.go"
block text > "$work/hello/expected"
[ -z "$(gofmt -l "$work/hello")" ]
# A node takes every KITH_ variable that it does not know for a wrong key of its configuration.
unset KITH_SCRIPT
"$KITH" serve --ephemeral --port 0 --operations-port 0 --ports-file "$work/node" --log warn &
trap 'kill %1; wait' EXIT
for _ in $(seq 600); do
    [ ! -f "$work/node" ] || break
    kill -0 %1
    sleep 0.1
done
address="$(sed 's/.*"grpc": *"\([^"]*\)".*/\1/' "$work/node")"
block sh > "$work/hello/run.sh"
(cd "$work/hello" && KITH_ADDR="http://$address" bash -euo pipefail run.sh | tee printed && diff expected printed)

echo "test: the example"
(cd "$root/examples/push-worker-go" && go test -count 1 ./...)
echo "test: the Go client holds"
