#!/usr/bin/env bash
# Starts the program with the given options. Files are read and written in the folder of now.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
venv=$here/../../target/python/message-search
if [ ! -e "$venv/installed" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q "$here/../../clients/python"
    touch "$venv/installed"
fi
exec "$venv/bin/python" "$here/search.py" "$@"
