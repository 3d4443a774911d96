package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"lksms/internal/platform/bom"
)

// readArguments returns the arguments of a command line without byte order marks at the start of an argument or of the value of a flag. The error names the
// first argument that is not UTF-8: kong and JSON would replace its bytes, and the server would store a different text. With --spool, such an argument is
// accepted, because the caller possibly cannot repeat the message.
func readArguments(raw []string) ([]string, error) {
	args := make([]string, len(raw))
	isSpool := slices.ContainsFunc(raw, func(arg string) bool { return arg == "--spool" || strings.HasPrefix(arg, "--spool=") })
	for i, arg := range raw {
		if !isSpool && !utf8.ValidString(arg) {
			return nil, fmt.Errorf("%s is not UTF-8: convert it, for example with iconv -f GB18030 -t UTF-8", nameArgument(raw, i))
		}
		args[i] = strings.TrimPrefix(arg, bom.Mark)
		if flag, value, hasValue := strings.Cut(arg, "="); hasValue && strings.HasPrefix(flag, "-") {
			args[i] = flag + "=" + strings.TrimPrefix(value, bom.Mark)
		}
	}
	return args, nil
}

// nameArgument names an argument by its flag, or by its position.
func nameArgument(args []string, i int) string {
	if flag, _, hasValue := strings.Cut(args[i], "="); hasValue && strings.HasPrefix(flag, "-") && utf8.ValidString(flag) {
		return "the value of " + flag
	}
	if i > 0 && strings.HasPrefix(args[i-1], "--") && args[i-1] != "--" && !strings.Contains(args[i-1], "=") {
		return "the argument after " + args[i-1]
	}
	return fmt.Sprintf("argument %d", i+1)
}
