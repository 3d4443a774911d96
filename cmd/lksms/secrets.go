package main

import (
	"context"
	"fmt"

	"lksms/internal/app"
	"lksms/internal/config"
	"lksms/internal/secret"
)

type secretsCmd struct {
	Key    secretsKeyCmd    `cmd:"" help:"Make a key for SECRETS_KEY and print it."`
	Rotate secretsRotateCmd `cmd:"" help:"Seal the secrets of all senders with SECRETS_KEY; what SECRETS_KEY_OLD sealed is opened with that."`
}

type secretsKeyCmd struct{}

func (secretsKeyCmd) Run() error {
	_, err := fmt.Println(secret.NewKey())
	return err
}

type secretsRotateCmd struct {
	config.Outbound `embed:""`
	config.Database `embed:""`
}

func (c *secretsRotateCmd) Run(ctx context.Context) error {
	box, err := config.SecretBox(c.Outbound, c.Database)
	if err != nil {
		return err
	}
	return withDatabase(ctx, c.Database, func(ctx context.Context, url string) error {
		n, err := app.RotateSecrets(ctx, url, box)
		if err != nil {
			return fmt.Errorf("%d sealed anew, then: %w", n, err)
		}
		fmt.Printf("%d sealed anew\n", n)
		return nil
	})
}
