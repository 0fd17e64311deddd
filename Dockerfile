# The operator alone in an empty image: no shell, no package manager, not root.
ARG RUST_VERSION=1.95.0
FROM rust:${RUST_VERSION}-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package baremetal-operator \
 && mkdir -p /out/etc/ssl/certs && cp target/release/baremetal-operator /out/ \
 && cp /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/

FROM scratch
COPY --from=build /out/ /
# Upstream's user, so that mounted credentials keep their owner.
USER 65532:65532
EXPOSE 8443 9440
ENTRYPOINT ["/baremetal-operator"]
