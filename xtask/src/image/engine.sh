# Starts Docker's engine, fills it with images that a registry would have, and runs the given command on it. Runs as the first
# process of its own namespaces: what it started ends with it.
rm -rf "$STATE"
mkdir -p "$STATE"
ip link set lo up
# DOCKER_RAMDISK: containers may have any root file system below them.
DOCKER_RAMDISK=1 dockerd --data-root "$STATE/data" --exec-root "$STATE/run" --pidfile "$STATE/pid" --host "unix://$STATE/socket" \
    --storage-driver overlay2 > "$STATE/log" 2>&1 &
engine=$!
export DOCKER_HOST="unix://$STATE/socket"
until docker version > /dev/null 2>&1; do
    kill -0 "$engine" || { tail -20 "$STATE/log"; exit 1; } >&2
    sleep 0.2
done

docker import "$BUSYBOX" busybox:1.37-glibc > /dev/null
docker import "$SERVERS" debian:servers > /dev/null
# It has certificates.
docker tag debian:servers buildpack-deps:bookworm-curl
program=$(dirname "$CASSANDRA")
tar -c -C / "${MONGOD#/}" "${program#/}" "${program#/}/../$(basename "${program%-program}")" -C "$PWD/xtask/src/image/servers" . |
    docker build --quiet --build-arg "MONGOD=$MONGOD" --build-arg "CASSANDRA=$CASSANDRA" --tag servers -
for image in mongo:7.0 redis:7.2 scylladb/scylla:6.2; do
    docker tag servers "$image"
done

status=0
"$@" || status=$?
kill "$engine"
wait "$engine" || true
rm -rf "$STATE"
exit "$status"
