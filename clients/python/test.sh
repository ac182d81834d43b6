#!/usr/bin/env bash
# Runs everything of the Python client from a clean checkout. KITH names the program of a node, KITH_SCRIPT that of the
# node of the script.
set -euo pipefail
cd "$(dirname "$0")"
KITH=$(realpath "${KITH:?names the program kith}")
KITH_SCRIPT=$(realpath "${KITH_SCRIPT:?names the program kith-script}")
export KITH
# A node refuses variables that begin with KITH_ and that it does not know.
export -n KITH_SCRIPT

. ./prepare.sh

"$tools/ruff" format --check .
"$tools/ruff" check .
"$tools/mypy" src generate.py hatch_build.py bench conformance tests
"$tools/pytest" -q
"$tools/python" conformance/play.py "$KITH_SCRIPT" ../conformance

# The built package, alone in a new environment, with the newest versions of what it needs.
rm -rf "$target/dist" "$target/alone"
"$tools/python" -m build -q --outdir "$target/dist" .
python3 -m venv "$target/alone"
"$target/alone/bin/pip" install -q "$(echo "$target"/dist/*.whl)[issuer]" pytest
unset PYTHONPATH
# What users see of its types.
"$target/alone/bin/pip" install -q types-grpcio types-protobuf
sed -n '/^```python$/,/^```$/{/^```/!p}' README.md > "$target/readme.py"
"$tools/mypy" --strict --config-file /dev/null --python-executable "$target/alone/bin/python" "$target/readme.py"
"$target/alone/bin/python" -m pytest -q tests/node
"$target/alone/bin/python" conformance/play.py "$KITH_SCRIPT" ../conformance
echo "clients/python: everything holds"
