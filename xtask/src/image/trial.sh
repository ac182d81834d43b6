# Builds the image, and runs it alone and as a cluster by compose: up from nothing, a node killed, scaled, down, up with its data.
bytes_max=40000000
fail() {
    echo "$*"
    $COMPOSE ps --all
    $COMPOSE logs --tail 20
    exit 1
} >&2
container() { $COMPOSE ps --all --quiet "$1"; }
# Waits until these services are healthy.
healthy() {
    for service in "$@"; do
        tries=0
        until [ "$(docker inspect --format '{{.State.Health.Status}}' "$(container "$service")")" = healthy ]; do
            [ $((tries += 1)) -le 240 ] || fail "$service does not become healthy"
            sleep 0.5
        done
    done
}
kith() {
    service=$1
    shift
    $COMPOSE exec -T "$service" kith "$@"
}
knows_grace() { kith "$1" call GetUser '{"userId": 7}' | grep -q grace || fail "$1 does not know the user"; }

docker build --quiet --tag kith:local --file Dockerfile "$FILES"
bytes=$(docker save kith:local | gzip | wc -c)
[ "$bytes" -le "$bytes_max" ] || fail "the image has $bytes bytes, at most $bytes_max are allowed"
facts=$(docker inspect --format '{{.Config.User}} {{.Config.StopSignal}} {{json .Config.Labels}}' kith:local)
for fact in 10001:10001 SIGTERM title description licenses version revision; do
    echo "$facts" | grep -q "$fact" || fail "the image lacks $fact: $facts"
done

docker volume create kith-alone > /dev/null
alone="--read-only --cap-drop ALL --volume kith-alone:/var/lib/kith --env KITH_API_KEY_FILE=/var/lib/kith/kith.key"
docker run --rm $alone kith:local keys generate --file /var/lib/kith/kith.key --if-missing > /dev/null
docker run --detach --name kith-alone $alone kith:local > /dev/null
until [ "$(docker inspect --format '{{.State.Health.Status}}' kith-alone)" = healthy ]; do
    [ "$(docker inspect --format '{{.State.Running}}' kith-alone)" = true ] || fail "$(docker logs kith-alone 2>&1)"
    sleep 0.5
done
docker exec kith-alone kith call CreateUser '{"user": {"userName": "Ada"}}' > /dev/null
docker stop --time 20 kith-alone > /dev/null
[ "$(docker inspect --format '{{.State.ExitCode}}' kith-alone)" = 0 ] || fail "the node did not stop in order"
docker rm kith-alone > /dev/null
docker volume rm kith-alone > /dev/null

begun=$(date +%s)
$COMPOSE up --detach --no-build kith-1 kith-2
healthy kith-1 kith-2
echo "image: two nodes were healthy $(($(date +%s) - begun)) s after nothing"
kith kith-1 call CreateUser '{"user": {"userId": 7, "userName": "grace"}}' > /dev/null
knows_grace kith-2
[ "$(docker inspect --format '{{.HostConfig.ReadonlyRootfs}}' "$(container kith-1)")" = true ] || fail "the root is written"

$COMPOSE kill kith-2
knows_grace kith-1
kith kith-1 call CreateUser '{"user": {"userId": 8, "userName": "ada"}}' > /dev/null
$COMPOSE up --detach --no-build kith-1 kith-2 kith-3
healthy kith-2 kith-3
knows_grace kith-2
knows_grace kith-3
until [ "$(kith kith-3 nodes -o plain | grep -c serving)" -ge 3 ]; do sleep 0.5; done
$COMPOSE stop kith-3
[ "$(docker inspect --format '{{.State.ExitCode}}' "$(container kith-3)")" = 0 ] || fail "kith-3 did not stop in order"
knows_grace kith-1

$COMPOSE down
$COMPOSE up --detach --no-build kith-1 kith-2 kith-3
healthy kith-1 kith-2 kith-3
knows_grace kith-3
$COMPOSE down --volumes
echo "image: $bytes bytes; a cluster came up, lost a node, grew, shrank, and kept its data"
