package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/joho/godotenv"
)

// LoadEnvironment adds the variables of .env in the working folder, if there is one, to those that are not set. A setting
// that is set to nothing is not set: that is how compose files and lines of .env leave it out.
func LoadEnvironment() error {
	forgetEmpty()
	if err := godotenv.Load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read .env: %w", err)
	}
	forgetEmpty()
	return nil
}

func forgetEmpty() {
	for _, name := range Variables() {
		if os.Getenv(name) == "" {
			_ = os.Unsetenv(name) // fails only for an empty name
		}
	}
}

// Variables are the names of all settings in the environment, in the order in which Server has them.
func Variables() []string { return variablesOf(reflect.TypeFor[Server]()) }

func variablesOf(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if name, found := field.Tag.Lookup("env"); found {
			names = append(names, name)
		} else if field.Type.Kind() == reflect.Struct {
			names = append(names, variablesOf(field.Type)...)
		}
	}
	return names
}

// forerunners are the variables of the Python service of the same name that mean nothing here.
var forerunners = []string{"POSTGRES_HOST", "POSTGRES_PORT", "POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD"}

// Meaningless are the variables that are set and that the Python service of the same name would have read, but this one does
// not.
func Meaningless() []string {
	var names []string
	for _, name := range forerunners {
		if os.Getenv(name) != "" {
			names = append(names, name)
		}
	}
	return names
}
