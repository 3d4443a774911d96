package server

import (
	"context"
	"fmt"

	"lksms/internal/app"
	"lksms/internal/platform/config"
	"lksms/internal/platform/secret"
)

// SecretsCmd is the command `lksms secrets`.
type SecretsCmd struct {
	Key    secretsKeyCmd    `cmd:"" help:"Print a new key for SECRETS_KEY."`
	Rotate secretsRotateCmd `cmd:"" help:"Encrypt the secrets of all senders again with SECRETS_KEY. Secrets encrypted with SECRETS_KEY_OLD are decrypted with that key."`
}

type secretsKeyCmd struct{}

func (secretsKeyCmd) Run() error {
	_, err := fmt.Println(secret.NewKey())
	return err
}

type secretsRotateCmd struct {
	Outbound config.Outbound `embed:""`
	Database config.Database `embed:""`
}

func (c *secretsRotateCmd) Run(ctx context.Context) error {
	box, err := config.SecretBox(c.Outbound, c.Database)
	if err != nil {
		return err
	}
	return withDatabase(ctx, c.Database, func(ctx context.Context, url string) error {
		n, err := app.RotateSecrets(ctx, url, box)
		if err != nil {
			return fmt.Errorf("%d configurations encrypted again, then: %w", n, err)
		}
		fmt.Printf("%d configurations encrypted again\n", n)
		return nil
	})
}
