package config

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
)

// Remote configures, from the environment, the server that a command calls.
type Remote struct {
	URL      string // LKSMS_URL
	Profile  string // LKSMS_PROFILE
	Username string // LKSMS_USER
	Password Secret // LKSMS_PASSWORD
	Key      Secret // LKSMS_KEY
}

const (
	remotePassword = "LKSMS_PASSWORD"
	remoteKey      = "LKSMS_KEY"
)

// ReadRemote reads the environment. Call ReadRemote before LoadEnvironment: otherwise a .env file in the working folder could send the credentials of the
// environment to another server.
func ReadRemote() Remote {
	return Remote{
		URL: os.Getenv("LKSMS_URL"), Profile: os.Getenv("LKSMS_PROFILE"), Username: os.Getenv("LKSMS_USER"),
		Password: Secret(os.Getenv(remotePassword)), Key: Secret(os.Getenv(remoteKey)),
	}
}

// Validate rejects credentials that are ambiguous.
func (r Remote) Validate() error {
	switch {
	case r.Password != "" && r.Key != "":
		return errors.New("LKSMS_PASSWORD and LKSMS_KEY are both set: set one of them")
	case r.Password != "" && r.Username == "":
		return errors.New("LKSMS_PASSWORD is set without LKSMS_USER: set the name of the user, too")
	}
	return nil
}

// WithoutSecrets returns the environment for child processes, without the variables that contain secrets.
func WithoutSecrets() []string {
	secrets := append(secretsOf(reflect.TypeFor[Server]()), remotePassword, remoteKey)
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(secrets, name)
	})
}

func secretsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		switch name, found := field.Tag.Lookup("env"); {
		case found && field.Type == reflect.TypeFor[Secret]():
			names = append(names, name)
		case !found && field.Type.Kind() == reflect.Struct:
			names = append(names, secretsOf(field.Type)...)
		}
	}
	return names
}
