# Runs as root of a Debian with Docker, whose /trial has an archive, what the image is made from, and servers. CACHE is where
# programs.tar has its files, BYTES_MAX the most bytes of the compressed image.
cd /trial
export DOCKER_BUILDKIT=1 COMPOSE_PROGRESS=plain
fail() {
    echo "$*"
    tail -n 50 engine.log
    docker compose ps --all
    docker compose logs --tail 20
    exit 1
} >&2
# Waits for a command that succeeds, at most two minutes.
until_ok() {
    patience=$(($(date +%s) + 120))
    until "$@" > seen 2>&1; do
        [ "$(date +%s)" -lt "$patience" ] || fail "$* did not succeed: $(cat seen)"
        sleep 0.2
    done
}

dockerd --log-level error --storage-driver overlay2 > engine.log 2>&1 &
until_ok docker info
install -D cmd /usr/libexec/docker/cli-plugins/docker-compose
tar -xf repository.tar
install -D --target-directory=target/release-files kith-*-linux.tar.gz
docker import base.tar gcr.io/distroless/cc-debian12 > /dev/null
docker import empty.tar debian:bookworm-slim > /dev/null
docker import servers.tar servers > /dev/null
mv mongod programs.tar xtask/src/image/servers
docker build --quiet --build-arg "CACHE=$CACHE" --target mongo --tag mongo:7.0 --tag redis:7.2 xtask/src/image/servers
docker build --quiet --build-arg "CACHE=$CACHE" --tag scylladb/scylla:6.2 xtask/src/image/servers
docker compose build

bytes=$(docker save kith:local | gzip -9 | wc -c)
[ "$bytes" -le "$BYTES_MAX" ] || fail "the image has $bytes bytes, at most $BYTES_MAX are allowed"
described=$(docker image inspect --format '{{.Config.User}} {{.Config.StopSignal}} {{.Config.Healthcheck.Test}}' kith:local)
[ "$described" = '10001:10001 SIGTERM [CMD kith ping --timeout 2s]' ] || fail "the image says $described"
for label in title description licenses version revision; do
    [ -n "$(docker image inspect --format "{{index .Config.Labels \"org.opencontainers.image.$label\"}}" kith:local)" ] ||
        fail "the image has no label $label"
done

# A node alone, as docs/operate/deploying.md starts it, with a root that it cannot write.
is_healthy() { [ "$(docker inspect --format '{{.State.Health.Status}}' "$1")" = healthy ]; }
docker run --rm --read-only --volume kith:/var/lib/kith kith:local keys generate --file /var/lib/kith/kith.key --if-missing
docker run --detach --name kith --read-only --cap-drop ALL --volume kith:/var/lib/kith --env KITH_API_KEY_FILE=/var/lib/kith/kith.key \
    --ulimit core=0 --stop-timeout 20 kith:local
until_ok is_healthy kith
docker exec kith kith call CreateUser '{"user": {"userName": "ada"}}' > /dev/null
docker stop kith
[ "$(docker inspect --format '{{.State.ExitCode}}' kith)" = 0 ] || fail "the node did not stop in order"
docker rm kith

# The cluster, from nothing.
up() { docker compose up --detach --wait --wait-timeout 300 kith-1 kith-2 kith-3 || fail "the cluster does not start"; }
up
docker compose cp kith-1:/var/lib/kith/kith.key kith.key
kith() { /trial/kith-*-linux/kith "$@"; }
tar -xzf target/release-files/kith-*-linux.tar.gz
export KITH_API_KEY_FILE=/trial/kith.key
create() { kith call --addr "127.0.0.1:$1" CreateUser "{\"user\": {\"userId\": $2, \"userName\": \"user$2\"}}" > /dev/null; }
has() { kith call --addr "127.0.0.1:$1" GetUser "{\"userId\": $2}" | grep -q "\"user$2\""; }
create 7600 7
has 7604 7 || fail "another node does not have a new user"
status=/proc/$(docker inspect --format '{{.State.Pid}}' kith-kith-1-1)
grep -qP '^Uid:\t10001\t10001\t10001\t10001$' "$status/status" || fail "the node runs as another user"
grep -q '^CapEff:.0*$' "$status/status" || fail "the node has capabilities"
grep -qP '^\S+ \S+ \S+ \S+ / ro[, ]' "$status/mountinfo" || fail "the root of the node can be written"

# A killed node: the others go on.
docker compose kill kith-2
for id in $(seq 100 119); do
    create 7600 "$id" && has 7604 "$id" || fail "user $id was lost after a node was killed"
done
docker compose start kith-2
until_ok is_healthy kith-kith-2-1
until_ok has 7602 119

# A fourth node, then two.
docker compose run --detach --no-deps --name kith-4 --env KITH_CLUSTER__ADVERTISE=http://kith-4:7600 kith-1
until_ok is_healthy kith-4
docker exec kith-4 kith nodes > nodes
[ "$(grep -o 'http://kith-[1-4]:7600' nodes | sort -u | wc -l)" = 4 ] || fail "the new node does not see three others: $(cat nodes)"
docker exec kith-4 kith call GetUser '{"userId": 7}' | grep -q user7 || fail "the new node does not have the data"
docker stop kith-4
docker rm kith-4
docker compose up --detach --scale kith-3=0 kith-1 kith-2 kith-3
[ -z "$(docker compose ps --quiet kith-3)" ] || fail "a node that was scaled away still runs"
create 7602 8 && has 7600 8 || fail "two nodes do not answer"

# Down, and up with its data.
docker compose down
up
has 7604 7 && has 7602 119 && has 7600 8 || fail "data are lost"
docker compose down --volumes
echo "image: $bytes bytes compressed; a node alone, and a cluster that lost a node, grew and came up again with its data"
