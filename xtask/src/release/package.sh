# The life of a package: installed, used, upgraded, removed, purged. Runs as root of an empty Debian, whose /trial has this
# version and a later one. Nothing starts services there, so the script starts the node as the unit says.
cd /trial
unit=/lib/systemd/system/kith.service
fail() {
    echo "$*"
    cat node.log
    exit 1
} >&2
setting() { sed -n "s/^$1=//p" "$unit"; }
start() {
    command=$(setting ExecStart)
    (cd "$(setting WorkingDirectory)" && exec env "$(setting Environment)" \
        setpriv --reuid="$(setting User)" --regid="$(setting Group)" --init-groups --no-new-privs $command) > node.log 2>&1 &
    node=$!
    until kith ping > /dev/null 2>&1; do
        kill -0 "$node" || fail "the node has ended"
        sleep 0.1
    done
}
stop() {
    kill "$node"
    wait "$node" || fail "the node did not stop in order"
}
has_modes() {
    found=$(stat --format '%U:%G %a' "$1")
    [ "$found" = "$2" ] || fail "$1 has $found, not $2"
}

newer=$(ls kith_*+newer_*.deb)
dpkg --install $(ls kith_*.deb | grep -v +newer_)
has_modes /etc/kith 'root:kith 750'
has_modes /etc/kith/kith.key 'root:kith 640'
has_modes /var/lib/kith 'kith:kith 700'
start
export KITH_API_KEY_FILE=/etc/kith/kith.key
kith call CreateUser '{"user": {"userId": 7, "userName": "grace"}}' > /dev/null
! env -u KITH_API_KEY_FILE kith call GetUser '{"userId": 7}' 2> refused || fail "a call without a key was answered"
grep -q CREDENTIALS_MISSING refused

stop
echo '# ours' >> /etc/kith/kith.toml
cp /etc/kith/kith.key key
dpkg --install "$newer"
cmp key /etc/kith/kith.key
grep -q '^# ours' /etc/kith/kith.toml || fail "the upgrade has replaced the configuration"
start
kith call GetUser '{"userId": 7}' | grep -q grace || fail "the upgrade has lost data"
stop

dpkg --remove kith
[ ! -e /usr/bin/kith ] || fail "the program stays"
[ -e /etc/kith/kith.key ] && [ -e /etc/kith/kith.toml ] && [ -n "$(ls /var/lib/kith)" ] || fail "removal takes what it has to keep"
dpkg --purge kith
[ ! -e /etc/kith ] && [ ! -e /var/lib/kith ] || fail "purge leaves files"
! id kith > /dev/null 2>&1 || fail "purge leaves the user"
echo "package: installed, upgraded with its data, removed, purged"
