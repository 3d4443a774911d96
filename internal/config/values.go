package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// LogLevel is a level by any of its usual names, in any case.
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
	case "error", "critical", "fatal": // nothing is logged above error
		*l = LogLevel(slog.LevelError)
	default:
		return fmt.Errorf("a log level is debug, info, warn or error, not %q", text)
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
		return fmt.Errorf("a log format is text, json or auto, not %q", text)
	}
}

// Booleans is how kong reads a switch: by any of its usual names, in any case.
func Booleans() kong.Option { return kong.KindMapper(reflect.Bool, booleans{}) }

type booleans struct{}

// IsBool implements kong.BoolMapper: as a flag it needs no value.
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
		return fmt.Errorf("a switch is true or false, not %q", value)
	}
	return nil
}
