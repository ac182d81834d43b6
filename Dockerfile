# The image of a node, from the archives of a release: `cargo xtask release`, then
# `docker build --tag kith --file Dockerfile target/release-files`.

# It has certificates, which the image takes as they are.
FROM buildpack-deps:bookworm-curl AS archive
COPY kith-*-linux.tar.gz /
# The archive is called after the machine as uname calls it, so one folder serves an image for several kinds of machines.
RUN mkdir /kith && tar -xzf /kith-*-"$(uname -m)"-linux.tar.gz -C /kith --strip-components=1

# The C library, and a few commands for people and orchestrators: sh, cat, sleep.
FROM busybox:1.37-glibc
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kith" \
      org.opencontainers.image.description="People and groups behind gRPC, read from memory" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# For TLS to MongoDB and Redis by public certificates.
COPY --from=archive /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=archive /kith/LICENSE /kith/THIRD-PARTY.txt /usr/share/doc/kith/
COPY --from=archive /kith/kith /bin/kith
# The number is fixed, so that the owner of a volume stays the same from image to image.
RUN install -d -m 0700 -o 10001 -g 10001 /var/lib/kith
ENV KITH_DATA_DIR=/var/lib/kith
WORKDIR /var/lib/kith
VOLUME /var/lib/kith
USER 10001:10001
# gRPC, and the port for operators. Both listen on the loopback device until they are told otherwise (docs/operate/deploying.md).
EXPOSE 7600 7601
STOPSIGNAL SIGTERM
# Not answered for as long as the node waits for its store; an orchestrator that knows better asks /livez and /readyz.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["kith", "ping", "--timeout", "2s"]
ENTRYPOINT ["kith"]
CMD ["serve"]
