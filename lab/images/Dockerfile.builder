# Builds in place of rust:alpine: a small Debian with a C compiler, and this machine's Rust.
FROM scratch
ADD builder.tar /
COPY --from=toolchain bin /usr/local/bin
COPY --from=toolchain lib /usr/local/lib
ENV CARGO_HOME=/cargo
