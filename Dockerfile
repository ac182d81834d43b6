# The image of a node: the program of an archive, which `cargo xtask release` builds. `cargo xtask image` builds both, or
# `docker build --tag kith:local --file Dockerfile FOLDER`, where FOLDER has one archive for Linux.
ARG DEBIAN=bookworm
# The C library, certificates and time zones, but no shell and no package manager.
ARG BASE=gcr.io/distroless/cc-debian12

FROM debian:${DEBIAN}-slim AS unpacked
ADD kith-*-linux.tar.gz /
# The number is fixed, so that the owner of a volume stays the same from image to image.
RUN install -D --target-directory=/image/usr/local/bin /kith-*/kith \
    && install -D --mode=0644 --target-directory=/image/usr/share/doc/kith /kith-*/LICENSE /kith-*/THIRD-PARTY.txt \
    && install --directory --mode=0700 --owner=10001 --group=10001 /image/var/lib/kith

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kith" \
      org.opencontainers.image.description="People and groups behind gRPC, read from memory" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=unpacked /image /
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
