#!/usr/bin/env bash
# Starts the backend on port 8000. Further arguments are those of uvicorn. Keys are read in the folder of now.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
venv=$here/../../target/python/chat-backend
if [ ! -e "$venv/installed" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q "$here/../../clients/python[issuer]" -r "$here/requirements.txt"
    touch "$venv/installed"
fi
export KITH_API_KEY_FILE=${KITH_API_KEY_FILE:-backend.key}
exec "$venv/bin/uvicorn" --app-dir "$here" backend:app "$@"
