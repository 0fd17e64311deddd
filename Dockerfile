# Our programs, each alone in an empty image: no shell, no package manager, not root. One stage for each image:
#   docker build --target ip-address-manager .
# Without --target it is the baremetal-operator's.
#
# The image that builds is named by a tag, which its registry may move. Whoever publishes what comes out names it by digest:
#   docker build --build-arg RUST_IMAGE=rust@sha256:... .
# The programs carry the list of the crates that they are made of: cargo audit bin, syft and trivy read it.
ARG RUST_IMAGE=rust:1.95.0-alpine
FROM ${RUST_IMAGE} AS build
RUN apk add --no-cache musl-dev \
 && cargo install cargo-auditable --version 0.7.7 --locked
WORKDIR /src
COPY . .
RUN cargo auditable build --release --locked \
      --package baremetal-operator --package ip-address-manager --package cluster-api-provider-metal3 \
 && mkdir -p /out/etc/ssl/certs \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/

# Upstream's user, so that mounted credentials keep their owner.
FROM scratch AS base
COPY --from=build /out/ /
USER 65532:65532
EXPOSE 8443 9440

# The names of the programs are upstream's: Deployments give them as commands.
FROM base AS ip-address-manager
COPY --from=build /src/target/release/ip-address-manager /manager
ENTRYPOINT ["/manager"]

FROM base AS cluster-api-provider-metal3
COPY --from=build /src/target/release/cluster-api-provider-metal3 /manager
ENTRYPOINT ["/manager"]

FROM base AS baremetal-operator
COPY --from=build /src/target/release/baremetal-operator /baremetal-operator
ENTRYPOINT ["/baremetal-operator"]
