# Our programs, each alone in an empty image: no shell, no package manager, not root. One stage for each image:
#   docker build --target ip-address-manager .
# Without --target it is the baremetal-operator's.
#
# The image that builds is named by a tag, which its registry may move. Whoever publishes what comes out names it by digest:
#   docker build --build-arg RUST_IMAGE=rust@sha256:... .
# The programs carry the list of the crates that they are made of: cargo audit bin, syft and trivy read it.
#
# Where there is no registry, `cargo xtask test --images` builds with an image of its own. SETUP is what an image needs besides
# Rust, and RUSTFLAGS makes programs that need no libraries of the system, where Rust does not do so by itself.
ARG RUST_IMAGE=rust:1.95.0-alpine
FROM ${RUST_IMAGE} AS build
ARG SETUP="apk add --no-cache musl-dev && cargo install cargo-auditable --version 0.7.7 --locked"
RUN sh -c "${SETUP}"
WORKDIR /src
COPY . .
ARG RUSTFLAGS=""
# With the target named, RUSTFLAGS are not those of build scripts and macros, which run while this builds.
RUN target=$(rustc -vV | sed -n 's/^host: //p') \
 && cargo auditable build --release --locked --target "$target" \
      --package baremetal-operator --package ip-address-manager --package cluster-api-provider-metal3 \
 && mkdir -p /out/etc/ssl/certs \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ \
 && cd "target/$target/release" && cp baremetal-operator ip-address-manager cluster-api-provider-metal3 /out/

# Upstream's user, so that mounted credentials keep their owner.
FROM scratch AS base
COPY --from=build /out/etc /etc
USER 65532:65532
EXPOSE 8443 9440
ARG VERSION=""
LABEL org.opencontainers.image.source=https://github.com/metal3-rs/metal3 \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION}

# The names of the programs are upstream's: Deployments give them as commands.
FROM base AS ip-address-manager
LABEL org.opencontainers.image.title=ip-address-manager
COPY --from=build /out/ip-address-manager /manager
ENTRYPOINT ["/manager"]

FROM base AS cluster-api-provider-metal3
LABEL org.opencontainers.image.title=cluster-api-provider-metal3
COPY --from=build /out/cluster-api-provider-metal3 /manager
ENTRYPOINT ["/manager"]

FROM base AS baremetal-operator
LABEL org.opencontainers.image.title=baremetal-operator
COPY --from=build /out/baremetal-operator /baremetal-operator
ENTRYPOINT ["/baremetal-operator"]
