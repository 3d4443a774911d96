package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"lksms/internal/access"
	"lksms/internal/config"
	"lksms/internal/postgres"
)

type userCmd struct {
	Add     userAddCmd     `cmd:"" help:"Add a user."`
	List    userListCmd    `cmd:"" help:"List the users."`
	Disable userDisableCmd `cmd:"" help:"Let a user in no more; servers that run notice it within two seconds."`
	Enable  userEnableCmd  `cmd:"" help:"Let a disabled user in again."`
	Passwd  userPasswdCmd  `cmd:"" help:"Give a user a new password."`
	Key     userKeyCmd     `cmd:"" help:"Make an API key for a user and print it."`
}

// passwordSource is where a new password comes from: generated, and then shown, unless it is given.
type passwordSource struct {
	PasswordStdin bool `name:"password-stdin" help:"Read the password from standard input instead of generating one."`
}

func (p passwordSource) read() (password string, generated bool, err error) {
	if !p.PasswordStdin {
		return rand.Text(), true, nil
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", false, fmt.Errorf("read password: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	if n := utf8.RuneCountInString(line); n < config.MinPassword {
		return "", false, fmt.Errorf("the password has %d characters, it needs at least %d", n, config.MinPassword)
	}
	return line, false, nil
}

type userAddCmd struct {
	Username       string `arg:"" help:"Its name."`
	Role           string `required:"" enum:"submit,send,read,admin" help:"${enum}."`
	AppID          string `name:"app-id" help:"Bind a send user to this app."`
	Company        string `help:"The company_no of the company that a submit or read user belongs to; without it the default one, and a read user sees every company."`
	passwordSource `embed:""`

	config.Database `embed:""`
}

func (c *userAddCmd) Run(ctx context.Context) error {
	password, generated, err := c.read()
	if err != nil {
		return err
	}
	return withUsers(ctx, c.Database, func(ctx context.Context, users *access.Service) error {
		u := access.User{Username: c.Username, Password: password, Role: c.Role}
		if c.Company != "" {
			u.CompanyNo = &c.Company
		}
		if c.AppID != "" {
			u.AppID = &c.AppID
		}
		if _, err := users.Create(ctx, u); err != nil {
			return err
		}
		return showPassword(password, generated)
	})
}

func showPassword(password string, generated bool) error {
	if !generated {
		return nil
	}
	_, err := fmt.Println(password)
	return err
}

type userListCmd struct {
	config.Database `embed:""`
}

func (c *userListCmd) Run(ctx context.Context) error {
	return withUsers(ctx, c.Database, func(ctx context.Context, users *access.Service) error {
		const page = 100
		before := int64(1<<63 - 1)
		for {
			rows, err := users.List(ctx, before, page)
			if err != nil {
				return err
			}
			for _, u := range rows {
				state, app := "enabled", ""
				if u.IsDisabled {
					state = "disabled"
				}
				if u.AppID != nil {
					app = " as " + *u.AppID
				}
				fmt.Printf("%-8s %-8s %s%s\n", u.Role, state, u.Username, app)
				before = u.ID
			}
			if len(rows) < page {
				return nil
			}
		}
	})
}

type userDisableCmd struct {
	Username        string `arg:"" help:"Whom."`
	config.Database `embed:""`
}

func (c *userDisableCmd) Run(ctx context.Context) error {
	return setDisabled(ctx, c.Database, c.Username, true)
}

type userEnableCmd struct {
	Username        string `arg:"" help:"Whom."`
	config.Database `embed:""`
}

func (c *userEnableCmd) Run(ctx context.Context) error {
	return setDisabled(ctx, c.Database, c.Username, false)
}

func setDisabled(ctx context.Context, cfg config.Database, username string, disabled bool) error {
	return withUsers(ctx, cfg, func(ctx context.Context, users *access.Service) error {
		_, err := users.Update(ctx, access.Patch{Username: username, IsDisabled: &disabled})
		return err
	})
}

type userPasswdCmd struct {
	Username        string `arg:"" help:"Whose."`
	passwordSource  `embed:""`
	config.Database `embed:""`
}

func (c *userPasswdCmd) Run(ctx context.Context) error {
	password, generated, err := c.read()
	if err != nil {
		return err
	}
	return withUsers(ctx, c.Database, func(ctx context.Context, users *access.Service) error {
		if _, err := users.Update(ctx, access.Patch{Username: c.Username, Password: &password}); err != nil {
			return err
		}
		return showPassword(password, generated)
	})
}

type userKeyCmd struct {
	Username        string `arg:"" help:"Whose."`
	Name            string `arg:"" help:"What it is for."`
	config.Database `embed:""`
}

func (c *userKeyCmd) Run(ctx context.Context) error {
	return withUsers(ctx, c.Database, func(ctx context.Context, users *access.Service) error {
		_, key, err := users.CreateKey(ctx, c.Username, c.Name)
		if err != nil {
			return err
		}
		return showPassword(key, true)
	})
}

// withUsers works on the users of a migrated database.
func withUsers(ctx context.Context, cfg config.Database, fn func(context.Context, *access.Service) error) error {
	return withDatabase(ctx, cfg, func(ctx context.Context, url string) error {
		if _, err := postgres.MigrateUp(ctx, url); err != nil {
			return err
		}
		db, err := postgres.Open(ctx, url)
		if err != nil {
			return err
		}
		defer db.Close()
		// The configured admin is the server's; nobody is asked for credentials here.
		users, err := access.New(db, access.Options{Password: rand.Text()})
		if err != nil {
			return err
		}
		return fn(ctx, users)
	})
}
