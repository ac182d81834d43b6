#!/usr/bin/env bash
# Checks the sample, and runs its README against a node. KITH names the program. clients/python/test.sh comes first: it
# installs the tools.
set -euo pipefail
cd "$(dirname "$0")"
KITH=$(realpath "${KITH:?names the program kith}")
# A node refuses variables that begin with KITH_ and that it does not know.
unset KITH_SCRIPT
tools=../../target/python/tools/bin
venv=../../target/python/message-search
settings=../../clients/python/pyproject.toml

rm -f "$venv/installed"
"$tools/ruff" format --check --config "$settings" .
"$tools/ruff" check --config "$settings" .
./start.sh --help > /dev/null
"$venv/bin/python" test.py "$KITH"
"$venv/bin/pip" install -q types-grpcio types-protobuf
"$tools/mypy" --strict --python-executable "$venv/bin/python" search.py test.py
