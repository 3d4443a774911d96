package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lksms/gen/api"
)

// target is the server that a command talks to.
type target struct {
	URL  string `name:"url" help:"Address of the server; the one on this machine by default."`
	Port int    `name:"app-port" env:"APP_PORT" default:"8000" help:"Port of the server on this machine."`
}

func (t target) address() string {
	if t.URL != "" {
		return t.URL
	}
	return "http://127.0.0.1:" + strconv.Itoa(t.Port)
}

// healthCmd is for supervisors that run a command in a container without a shell.
type healthCmd struct {
	target      `embed:""`
	TLSCertFile string `name:"tls-cert-file" env:"TLS_CERT_FILE" help:"Set if the server on this machine serves TLS."`
}

func (c *healthCmd) Run(ctx context.Context) error {
	address, transport := c.address(), http.DefaultTransport
	if c.URL == "" && c.TLSCertFile != "" {
		address = "https" + strings.TrimPrefix(address, "http")
		// The certificate is for the server's own name, and nothing secret is asked.
		transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // on this machine
	}
	client, err := api.NewClientWithResponses(address, api.WithHTTPClient(&http.Client{Timeout: 3 * time.Second, Transport: transport}))
	if err != nil {
		return fmt.Errorf("read --url: %w", err)
	}
	if _, err := accepted(client.ReadyWithResponse(ctx)); err != nil {
		return fmt.Errorf("%s is not ready: %w", address, err)
	}
	return nil
}
