# The first minutes with an archive. Runs as root of an empty Debian, whose /trial has the files of a release.
cd /trial
fail() {
    echo "$*"
    cat node.log refused
    exit 1
} >&2

sha256sum --quiet --check kith-*.sha256
begun=$(date +%s%N)
tar -xzf kith-*-linux.tar.gz
cd kith-*-linux
for file in LICENSE THIRD-PARTY.txt completions/kith completions/_kith completions/kith.fish man1/kith-serve.1 systemd/kith.toml; do
    [ -s "$file" ] || fail "the archive lacks $file"
done
! grep -aq /registry/src/ kith || fail "the program names paths of the machine that built it"

./kith serve > node.log 2>&1 &
node=$!
until ./kith call CreateUser '{"user": {"userName": "Ada"}}' -o json > answer 2> refused; do
    [ $(($(date +%s%N) - begun)) -lt 10000000000 ] || fail "no call was answered within 10 s"
    sleep 0.1
done
echo "archive: the first call was answered $((($(date +%s%N) - begun) / 1000000)) ms after unpacking began"
grep -q '"userId": "10000000000"' answer
./kith inspect user/10000000000 > /dev/null
kill "$node"
wait "$node" || fail "the node did not stop in order"

./kith demo --no-browser > node.log 2>&1 &
node=$!
until ./kith ping > /dev/null 2> refused; do
    kill -0 "$node" || fail "the demo has ended"
    sleep 0.1
done
kill "$node"
wait "$node" || fail "the demo did not stop in order"
