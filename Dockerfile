# The image of a node: `docker build --tag kith .`
# The version of Rust is that of rust-toolchain.toml, which is left out here: it would fetch the components for lints.
ARG RUST_VERSION=1.95.0
ARG DEBIAN=bookworm

FROM rust:${RUST_VERSION}-${DEBIAN} AS build
WORKDIR /src
# What `kith --version` says: the commit and its day, as `.git` is not sent to the engine.
ARG REVISION=unknown
ARG REVISION_DATE=unknown
ENV BUILD_COMMIT=${REVISION} BUILD_DATE=${REVISION_DATE}
COPY . .
# The registry and what was built stay with the engine between builds.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --profile dist --locked --package kith-cli \
    && install -D target/dist/kith /out/kith

FROM debian:${DEBIAN}-slim
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kith" \
      org.opencontainers.image.description="People and groups behind gRPC, read from memory" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# For TLS to MongoDB and Redis by public certificates.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/kith /usr/local/bin/kith
COPY LICENSE /usr/share/doc/kith/LICENSE
# The number is fixed, so that the owner of a volume stays the same from image to image.
RUN install --directory --mode=0700 --owner=10001 --group=10001 /var/lib/kith
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
