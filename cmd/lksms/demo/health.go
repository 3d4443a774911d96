package demo

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	api "lksms/gen/client"
)

// target is the server that a command calls.
type target struct {
	URL  string `name:"url" help:"URL of the server. Default: the server on this machine."`
	Port int    `name:"app-port" env:"APP_PORT" default:"8000" help:"Port of the server on this machine."`
}

func (t target) address() string {
	if t.URL != "" {
		return t.URL
	}
	return "http://127.0.0.1:" + strconv.Itoa(t.Port)
}

// HealthCmd is the command lksms health. It is for supervisors that run a command in a container without a shell.
type HealthCmd struct {
	Target      target `embed:""`
	TLSCertFile string `name:"tls-cert-file" env:"TLS_CERT_FILE" help:"Set if the server on this machine serves TLS."`
}

func (c *HealthCmd) Run(ctx context.Context) error {
	address, transport := c.Target.address(), http.DefaultTransport
	if c.Target.URL == "" && c.TLSCertFile != "" {
		address = "https" + strings.TrimPrefix(address, "http")
		// The certificate is for the public name of the server, and the request contains no secret.
		transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the server is on this machine
	}
	client, err := api.NewClientWithResponses(address, api.WithHTTPClient(&http.Client{Timeout: 3 * time.Second, Transport: transport}))
	if err != nil {
		return fmt.Errorf("read --url: %w", err)
	}
	if _, err := accepted(client.ReadyWithResponse(ctx, nil)); err != nil {
		return fmt.Errorf("%s is not ready: %w", address, err)
	}
	return nil
}
