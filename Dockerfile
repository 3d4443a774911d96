# One static binary, as an ordinary user. The migrations, the contract and Swagger UI are inside it.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X lksms/internal/platform/build.version=${VERSION}" -o /out/lksms ./cmd/lksms && mkdir /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/lksms /lksms
# A new volume gets the owner of the folder.
COPY --from=build --chown=65532:65532 /out/data /var/lib/lksms
USER 65532:65532
# The image has no /tmp.
ENV APP_HOST=0.0.0.0 APP_PORT=8000 LKSMS_DATA=/var/lib/lksms TMPDIR=/var/lib/lksms
VOLUME /var/lib/lksms
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s CMD ["/lksms", "health"]
ENTRYPOINT ["/lksms"]
CMD ["serve"]
