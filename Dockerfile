# The image from source. Nothing but the programs is in it: no shell, no libraries,
# no user but an unnamed one. `make image` packs programs that were
# built on this machine instead (compose/Dockerfile.bin); both builders of
# Docker, the classic one and BuildKit, read this file alike.
ARG GO_IMAGE=golang:1.26
FROM ${GO_IMAGE} AS build
WORKDIR /src
ARG GOPROXY
ARG GOSUMDB
ARG VERSION=dev
# Without a new go.mod the modules stay in their layer.
COPY go.mod go.sum ./
COPY internal/devdb/goregex/go.mod internal/devdb/goregex/
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X main.version=${VERSION} -X conclave/internal/cli.version=${VERSION}" \
      -o /out/ ./cmd/conclave ./cmd/meta ./cmd/session ./cmd/data

FROM scratch
ARG VERSION=dev
LABEL org.opencontainers.image.title="Conclave" \
      org.opencontainers.image.description="A service registry whose brain can be killed, watched and studied" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /out/ /bin/
ENV PATH=/bin
USER 65532:65532
CMD ["conclave", "help"]
