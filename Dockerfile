# One image: operator, engine, lanes, and the parts of tool pods that are m87's own. It holds one static binary and nothing else.
#   cargo build --locked --profile dist --target x86_64-unknown-linux-musl
#   buildah build --isolation chroot -t m87 .          (or docker build)
# Not at /m87: that is the folder under which tokens, certificates and tool pods' parts are mounted.
FROM scratch
ARG BINARY=target/x86_64-unknown-linux-musl/dist/m87
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="m87" \
      org.opencontainers.image.description="Lets only a governed proposal become an action, and leaves a receipt that anyone can recompute" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --chmod=0755 ${BINARY} /usr/bin/m87
USER 65532:65532
ENTRYPOINT ["/usr/bin/m87"]
