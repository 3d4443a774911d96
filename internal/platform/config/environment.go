package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"

	"github.com/joho/godotenv"

	"lksms/internal/platform/bom"
)

// LoadEnvironment reads .env in the working folder, if the file exists, and sets the variables that are not set yet. A variable with an empty value counts as
// not set: compose files and .env files pass empty values for omitted settings.
func LoadEnvironment() error {
	unsetEmpty()
	text, err := os.ReadFile(".env")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read .env: %w", err)
	}
	text = bom.Decode(text)
	values, err := godotenv.UnmarshalBytes(text)
	if err != nil { // the error of the library contains the rest of the file with its passwords
		return fmt.Errorf("read .env: line %d is not NAME=value", brokenLine(text))
	}
	for name, value := range values {
		if _, isSet := os.LookupEnv(name); isSet {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("read .env: set %s: %w", name, err)
		}
	}
	unsetEmpty()
	return nil
}

// brokenLine returns the number of the first line of a .env file that cannot be parsed. It searches the longest beginning of the file that can be parsed, and
// not the first line that fails alone, because a valid value can have several lines.
func brokenLine(text []byte) int {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for n := len(lines) - 1; n > 0; n-- {
		if _, err := godotenv.UnmarshalBytes(bytes.Join(lines[:n], nil)); err == nil {
			return n + 1
		}
	}
	return 1
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
