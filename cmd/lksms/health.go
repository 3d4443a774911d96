package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
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
	target `embed:""`
}

func (c *healthCmd) Run(ctx context.Context) error {
	client, err := api.NewClientWithResponses(c.address(), api.WithHTTPClient(&http.Client{Timeout: 3 * time.Second}))
	if err != nil {
		return fmt.Errorf("read --url: %w", err)
	}
	if _, err := accepted(client.ReadyWithResponse(ctx)); err != nil {
		return fmt.Errorf("%s is not ready: %w", c.address(), err)
	}
	return nil
}
