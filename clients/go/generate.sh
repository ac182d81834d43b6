#!/usr/bin/env bash
# Writes the generated code: gen/, services.go and rules.go from proto/, reasons.go from docs/reference/errors.md.
#
#     ./generate.sh            # for the module path that go.mod has
#     ./generate.sh NEW/PATH   # for another module path: also changes go.mod, imports and documents
set -euo pipefail
cd "$(dirname "$0")"

PROTOC_GEN_GO=v1.36.11
PROTOC_GEN_GO_GRPC=v1.6.2
bin="$(cd ../.. && pwd)/target/clients-go/bin"
buf="${KITH_TEST_BUF:-$(command -v buf || true)}"

[ -n "$buf" ] || { echo "generate: install buf, or name it in KITH_TEST_BUF" >&2; exit 1; }
install_plugin() { # NAME PACKAGE VERSION
    [ -x "$bin/$3/$1" ] || GOBIN="$bin/$3" go install "$2@$3"
}
install_plugin protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go "$PROTOC_GEN_GO"
install_plugin protoc-gen-go-grpc google.golang.org/grpc/cmd/protoc-gen-go-grpc "$PROTOC_GEN_GO_GRPC"

# The module line of go.mod is the only place that decides the path.
old="$(awk '$1 == "module" { print $2 }' go.mod)"
new="${1:-$old}"
if [ "$new" != "$old" ]; then
    grep -rlF --include='*.go' --include=go.mod --include='*.md' --include='*.sh' "$old" . ../../examples/push-worker-go |
        xargs sed -i "s|$old|$new|g"
fi

rm -rf gen
mkdir gen
"$buf" generate ../../proto --path ../../proto/kith --template "{
  \"version\": \"v2\",
  \"managed\": {
    \"enabled\": true,
    \"override\": [{ \"file_option\": \"go_package_prefix\", \"value\": \"$new/gen\" }]
  },
  \"plugins\": [
    { \"local\": \"$bin/$PROTOC_GEN_GO/protoc-gen-go\", \"out\": \"gen\", \"opt\": \"paths=source_relative\" },
    { \"local\": \"$bin/$PROTOC_GEN_GO_GRPC/protoc-gen-go-grpc\", \"out\": \"gen\", \"opt\": \"paths=source_relative\" }
  ]
}"
contract="$(sed -n 's/^pub const CONTRACT: u32 = \([0-9]*\);$/\1/p' ../../crates/proto/src/lib.rs)"
go run ./internal/generate "$new" "$contract" ../../docs/reference/errors.md
