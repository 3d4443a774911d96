package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/joho/godotenv"
)

// LoadEnvironment reads .env in the working folder, if it exists, and sets the variables that are not set yet. A
// setting with an empty value counts as not set: compose files and lines of .env leave settings out that way.
func LoadEnvironment() error {
	unsetEmpty()
	if err := godotenv.Load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read .env: %w", err)
	}
	unsetEmpty()
	return nil
}

// IgnoreEmpty lets a setting with an empty value count as not set, without reading .env.
func IgnoreEmpty() { unsetEmpty() }

// unsetEmpty unsets the settings with an empty value.
func unsetEmpty() {
	for _, name := range Variables() {
		if os.Getenv(name) == "" {
			_ = os.Unsetenv(name) // fails only for an empty name
		}
	}
}

// Variables returns the names of all settings in the environment, in the order of the fields of Server.
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

// ignoredVariables are settings of the Python service of the same name that this service does not have.
var ignoredVariables = []string{"POSTGRES_HOST", "POSTGRES_PORT", "POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD"}

// Meaningless returns the variables that are set for the Python service of the same name and that this service
// ignores.
func Meaningless() []string {
	var names []string
	for _, name := range ignoredVariables {
		if os.Getenv(name) != "" {
			names = append(names, name)
		}
	}
	return names
}
