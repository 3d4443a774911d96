package main

import (
	"strings"
	"testing"

	"lksms/client"
	"lksms/internal/testkit/apptest"
)

// Without this check, the server would store U+FFFD instead of each byte that is not UTF-8.
func TestArgumentsThatAreNotUTF8AreRefusedByName(t *testing.T) {
	s := newShell(t)
	const gb18030 = "\xC4\xFA\xBA\xC3" // 您好
	for name, args := range map[string][]string{
		"argument 3":                   {"send", apptest.Phone, gb18030},
		"argument 4":                   {"send", "--", apptest.Phone, gb18030},
		"the argument after --sign":    {"send", apptest.Phone, "hello", "--sign", gb18030},
		"the value of --sign":          {"send", apptest.Phone, "hello", "--sign=" + gb18030},
		"the argument after --param":   {"send", apptest.Phone, "--template", "T1", "--param", "name=" + gb18030},
		"the argument after --content": {"batch", "create", "list.csv", "--content", gb18030},
		"argument 2":                   {"status", gb18030},
		"the argument after --role":    {"user", "add", "someone", "--role", gb18030},
	} {
		s.expect(2, []string{name + " is not UTF-8"}, args...)
	}
	if n := s.server.Count("SELECT count(*) FROM messages"); n != 0 {
		t.Errorf("%d messages were submitted", n)
	}
}

func TestByteOrderMarksOfArgumentsAreRemoved(t *testing.T) {
	s := newShell(t)
	for _, args := range [][]string{
		{"send", apptest.Phone, "\uFEFF您好", "--sign", "\uFEFF示例"},
		{"send", apptest.Phone, "\uFEFF您好", "--sign=\uFEFF示例"},
	} {
		sent := decode[client.Submitted](s, args...)
		if got := apptest.Scan[string](s.server, "SELECT sign || ' ' || content FROM messages WHERE task_id = $1", sent.TaskID); got != "示例 您好" {
			t.Errorf("%q: signature and text are %q", args, got)
		}
	}
	s.expect(2, []string{"the text is empty"}, "send", apptest.Phone, "\uFEFF")
	if got, err := readArguments([]string{"send", "a=\uFEFFb"}); err != nil || strings.Join(got, " ") != "send a=\uFEFFb" {
		t.Errorf("a text with an equals sign: %q, %v", got, err)
	}
}
