package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/joho/godotenv"
)

// LoadEnvironment reads .env in the working folder, if the file exists, and sets the variables that are not set yet. A variable with an empty value counts as
// not set: compose files and .env files pass empty values for omitted settings.
func LoadEnvironment() error {
	unsetEmpty()
	if err := godotenv.Load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read .env: %w", err)
	}
	unsetEmpty()
	return nil
}

// IgnoreEmpty unsets the variables with an empty value, without reading .env.
func IgnoreEmpty() { unsetEmpty() }

// unsetEmpty unsets the variables with an empty value.
func unsetEmpty() {
	for _, name := range Variables() {
		if os.Getenv(name) == "" {
			_ = os.Unsetenv(name) // fails only for an empty name
		}
	}
}

// Variables returns the names of all variables that configure a server, in the order of the fields of Server.
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

// ignoredVariables are the variables of the Python service (the predecessor) that this service ignores.
var ignoredVariables = []string{"POSTGRES_HOST", "POSTGRES_PORT", "POSTGRES_DB", "POSTGRES_USER", "POSTGRES_PASSWORD"}

// Meaningless returns the ignoredVariables that are set.
func Meaningless() []string {
	var names []string
	for _, name := range ignoredVariables {
		if os.Getenv(name) != "" {
			names = append(names, name)
		}
	}
	return names
}
