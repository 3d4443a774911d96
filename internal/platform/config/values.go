package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// LogLevel is a log level. It is parsed from any of its usual names, in upper or lower case.
type LogLevel slog.Level

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *LogLevel) UnmarshalText(text []byte) error {
	switch strings.ToLower(string(text)) {
	case "debug":
		*l = LogLevel(slog.LevelDebug)
	case "info":
		*l = LogLevel(slog.LevelInfo)
	case "warn", "warning":
		*l = LogLevel(slog.LevelWarn)
	case "error", "critical", "fatal": // error is the highest level of the server
		*l = LogLevel(slog.LevelError)
	default:
		return fmt.Errorf("log level %q is unknown: use debug, info, warn or error", text)
	}
	return nil
}

// LogFormat is text, json or auto.
type LogFormat string

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *LogFormat) UnmarshalText(text []byte) error {
	switch *f = LogFormat(strings.ToLower(string(text))); *f {
	case "text", "json", "auto":
		return nil
	default:
		return fmt.Errorf("log format %q is unknown: use text, json or auto", text)
	}
}

// Booleans returns a kong option that parses a switch from any of the usual words for true and false, in upper or lower case.
func Booleans() kong.Option { return kong.KindMapper(reflect.Bool, booleans{}) }

type booleans struct{}

// IsBool implements kong.BoolMapper: on the command line a switch needs no value.
func (booleans) IsBool() bool { return true }

// Decode implements kong.Mapper.
func (booleans) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	value := "true"
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		value = ctx.Scan.Pop().String()
	}
	switch strings.ToLower(value) {
	case "true", "yes", "on", "t", "y", "1":
		target.SetBool(true)
	case "false", "no", "off", "f", "n", "0":
		target.SetBool(false)
	default:
		return fmt.Errorf("switch value %q is unknown: use true or false", value)
	}
	return nil
}
