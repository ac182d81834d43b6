# Installs the tools and writes the generated code. Sets `target` and `tools`, and the path of the package.
target=$PWD/../../target/python
mkdir -p "$target"
cp requirements.txt "$target/requirements.now"
if ! cmp -s "$target/requirements.now" "$target/requirements.installed"; then
    rm -rf "$target/tools"
    python3 -m venv "$target/tools"
    "$target/tools/bin/pip" install -q -r requirements.txt
    mv "$target/requirements.now" "$target/requirements.installed"
fi
tools=$target/tools/bin
export PYTHONPATH=$PWD/src
"$tools/python" generate.py
