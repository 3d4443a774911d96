package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"lksms/internal/platform/access"
	"lksms/internal/platform/bom"
	"lksms/internal/platform/config"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/postgres"
)

// UserCmd is the command `lksms user`.
type UserCmd struct {
	Add     userAddCmd     `cmd:"" help:"Add a user."`
	List    userListCmd    `cmd:"" help:"List the users."`
	Disable userDisableCmd `cmd:"" help:"Disable a user. Running servers apply it within two seconds."`
	Enable  userEnableCmd  `cmd:"" help:"Enable a disabled user."`
	Passwd  userPasswdCmd  `cmd:"" help:"Set a new password of a user."`
	Key     userKeyCmd     `cmd:"" help:"Create an API key for a user and print it."`
}

// passwordSource reads a new password from standard input, or generates it and prints it.
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
	line = strings.TrimRight(strings.TrimPrefix(line, bom.Mark), "\r\n")
	if n := utf8.RuneCountInString(line); n < config.MinPassword {
		return "", false, fmt.Errorf("the password is too short: %d characters, at least %d needed", n, config.MinPassword)
	}
	return line, false, nil
}

type userAddCmd struct {
	Username string         `arg:"" help:"Name of the user: 1 to 50 characters, without control characters and colons."`
	Role     string         `required:"" enum:"submit,send,read,admin" help:"${enum}."`
	AppID    string         `name:"app-id" help:"The only app that a send user can act as."`
	Company  string         `help:"company_no of a submit or read user. Default: the default company for submit, every company for read."`
	Source   passwordSource `embed:""`

	Admin    string          `name:"basic-auth-username" env:"BASIC_AUTH_USERNAME" default:"admin" help:"User name of the configured admin, which no other user can have."`
	Database config.Database `embed:""`
}

func (c *userAddCmd) Run(ctx context.Context) error {
	if c.Username == c.Admin {
		return fmt.Errorf("%s is the name of the configured admin (BASIC_AUTH_USERNAME): choose another name", c.Username)
	}
	password, generated, err := c.Source.read()
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
	Database config.Database `embed:""`
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
					app = " as " + escaped(*u.AppID)
				}
				fmt.Printf("%-8s %-8s %s%s\n", u.Role, state, escaped(u.Username), app)
				before = u.ID
			}
			if len(rows) < page {
				return nil
			}
		}
	})
}

// escaped replaces line breaks and other control characters, which could imitate another user of the list.
func escaped(text string) string {
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

type userDisableCmd struct {
	Username string          `arg:"" help:"Name of the user."`
	Database config.Database `embed:""`
}

func (c *userDisableCmd) Run(ctx context.Context) error {
	return setDisabled(ctx, c.Database, c.Username, true)
}

type userEnableCmd struct {
	Username string          `arg:"" help:"Name of the user."`
	Database config.Database `embed:""`
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
	Username string          `arg:"" help:"Name of the user."`
	Source   passwordSource  `embed:""`
	Database config.Database `embed:""`
}

func (c *userPasswdCmd) Run(ctx context.Context) error {
	password, generated, err := c.Source.read()
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
	Username string          `arg:"" help:"Name of the user."`
	Name     string          `arg:"" help:"Name of the key, for example the program that uses it."`
	Database config.Database `embed:""`
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

// withUsers runs fn with the users of the configured database.
func withUsers(ctx context.Context, cfg config.Database, fn func(context.Context, *access.Service) error) error {
	return withMigrated(ctx, cfg, func(ctx context.Context, db *postgres.DB) error {
		// The configured admin belongs to the server, and this command verifies no credentials. Therefore any password can be used here.
		users, err := access.New(db, access.Options{Password: rand.Text()})
		if err != nil {
			return err
		}
		return fn(ctx, users)
	})
}

// withMigrated runs fn with the configured database, after applying missing migrations.
func withMigrated(ctx context.Context, cfg config.Database, fn func(context.Context, *postgres.DB) error) error {
	return withDatabase(ctx, cfg, func(ctx context.Context, url string) error {
		if _, err := migrate.Up(ctx, url, warnings()); err != nil {
			return err
		}
		db, err := postgres.Open(ctx, url)
		if err != nil {
			return err
		}
		defer db.Close()
		return fn(ctx, db)
	})
}
