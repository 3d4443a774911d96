package config

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"lksms/internal/platform/secret"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// names returns the texts that the first group of pattern matches in text, without duplicates.
func names(pattern, text string) []string {
	var all []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		if !slices.Contains(all, match[1]) {
			all = append(all, match[1])
		}
	}
	return all
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%s is not a variable", name)
		}
	}
}

// The settings page contains each variable with its default.
func TestEveryVariableIsDocumented(t *testing.T) {
	t.Parallel()
	for path, heading := range map[string]string{"../../../docs/settings.md": "### Variables", "../../../docs/zh-CN/settings.md": "### 环境变量"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			_, section, found := strings.Cut(read(t, path), "\n"+heading+"\n")
			if !found {
				t.Fatalf("the document has no %s", heading)
			}
			section, _, _ = strings.Cut(section, "\n## ")
			var listed []string
			defaults := map[string]string{}
			for line := range strings.Lines(section) {
				if cells := strings.Split(line, "|"); len(cells) > 2 {
					for _, name := range names("`([A-Z_]+)`", cells[1]) {
						listed = append(listed, name)
						defaults[name] = strings.TrimSpace(cells[2])
					}
				}
			}
			compare(t, listed, Variables())
			for name, value := range defaultsOf(reflect.TypeFor[Server]()) {
				isComputed := name == "LKSMS_DATA" || name == "MAX_CONNECTIONS_PER_ADDRESS" // the page explains how the default is computed
				if !isComputed && defaults[name] != "`"+value+"`" {
					t.Errorf("the default of %s is %s, the page has %s", name, value, defaults[name])
				}
			}
		})
	}
	t.Run(".env.example", func(t *testing.T) {
		t.Parallel()
		compare(t, names(`(?m)^#?([A-Z_]+)=`, read(t, "../../../.env.example")), Variables())
	})
}

// defaultsOf returns the default of each variable that has a default.
func defaultsOf(t reflect.Type) map[string]string {
	all := map[string]string{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, found := field.Tag.Lookup("env")
		switch value, isSet := field.Tag.Lookup("default"); {
		case found && isSet:
			all[name] = value
		case !found && field.Type.Kind() == reflect.Struct:
			maps.Copy(all, defaultsOf(field.Type))
		}
	}
	return all
}

func TestComposePassesEverySettingToTheContainer(t *testing.T) {
	t.Parallel()
	compose := read(t, "../../../compose.yaml")
	_, environment, _ := strings.Cut(compose, "    environment: &environment\n")
	environment, _, _ = strings.Cut(environment, "    volumes: &volumes")
	own := []string{
		"APP_HOST", "APP_PORT", // the image listens on every address; these variables configure the address and port outside the container
		"LKSMS_PG_BIN", // the image has no PostgreSQL
	}
	want := slices.DeleteFunc(Variables(), func(name string) bool { return slices.Contains(own, name) })
	compare(t, names(`(?m)^      ([A-Z_]+):`, environment), want)
	for _, match := range regexp.MustCompile(`(?m)^      ([A-Z_]+): (.*)$`).FindAllStringSubmatch(environment, -1) {
		name, value := match[1], match[2]
		if name != "DATABASE_URL" && name != "LKSMS_DATA" && !strings.HasPrefix(value, "${"+name+":") {
			t.Errorf("%s is %s, not the value from outside", name, value)
		}
	}
	// The generated files are in a volume that the user of the image can write to.
	for _, want := range []string{`volumes: &volumes ["lksms:/var/lib/lksms"]`, "LKSMS_DATA: /var/lib/lksms\n", "${SECRETS_KEY_FILE:-/var/lib/lksms/"} {
		if !strings.Contains(compose, want) {
			t.Errorf("compose.yaml has no %s", want)
		}
	}
	if dockerfile := read(t, "../../../Dockerfile"); !strings.Contains(dockerfile, "--chown=65532:65532 /out/data /var/lib/lksms\nUSER 65532:65532\n") {
		t.Error("the user of the image does not own /var/lib/lksms")
	}
}

// By default the containers publish only plain HTTP, only to this machine, and no port of PostgreSQL.
func TestTheContainersPublishPortsOnlyToThisMachine(t *testing.T) {
	t.Parallel()
	published := regexp.MustCompile(`(?m)^ +ports:.*$`).FindAllString(read(t, "../../../compose.yaml"), -1)
	here := regexp.MustCompile(`^    ports: \["(\$\{APP_HOST:-127\.0\.0\.1\}|127\.0\.0\.1):(\d+|\$\{\w+:-\d+\}):\d+"(, "127\.0\.0\.1:\d+:\d+")*\]$`)
	if !slices.Contains(published, `    ports: ["${APP_HOST:-127.0.0.1}:${APP_PORT:-8000}:8000"]`) {
		t.Errorf("compose.yaml publishes %q, without the service", published)
	}
	for _, line := range published {
		if !here.MatchString(line) {
			t.Errorf("compose.yaml publishes %q to other machines", line)
		}
	}
}

// The service in the container does not connect as a superuser, and does not know the password of a superuser.
func TestTheServiceIsNoSuperuserInTheContainer(t *testing.T) {
	t.Parallel()
	compose, setup := read(t, "../../../compose.yaml"), read(t, "../../../scripts/compose.sql")
	if strings.Contains(compose, "POSTGRES_USER") || !strings.Contains(compose, "./scripts/compose.sql:/docker-entrypoint-initdb.d/lksms.sql:ro") {
		t.Error("compose.yaml makes the role of the service a superuser")
	}
	for _, want := range []string{"CREATE ROLE lksms LOGIN PASSWORD :'password';", "CREATE DATABASE lksms OWNER lksms;", "ALTER ROLE postgres PASSWORD NULL;"} {
		if !strings.Contains(setup, want) {
			t.Errorf("scripts/compose.sql has no %s", want)
		}
	}
}

// Editors of Windows write a byte order mark, and some write UTF-16.
func TestEnvironmentFileCanBeginWithAByteOrderMark(t *testing.T) {
	for name, text := range map[string]string{
		"UTF-8":  "\uFEFFAPP_PORT=8123\r\nLOG_LEVEL=warn\r\n",
		"UTF-16": "\xff\xfe" + strings.Join(strings.Split("APP_PORT=8123\nLOG_LEVEL=warn\n", ""), "\x00") + "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range Variables() {
				t.Setenv(variable, "")
			}
			t.Setenv("LOG_LEVEL", "error") // a variable of the environment takes precedence
			t.Chdir(t.TempDir())
			if err := os.WriteFile(".env", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := LoadEnvironment(); err != nil {
				t.Fatal(err)
			}
			if got := os.Getenv("APP_PORT") + " " + os.Getenv("LOG_LEVEL"); got != "8123 error" {
				t.Errorf("the variables are %q", got)
			}
		})
	}
}

// The error of a broken file is logged, so it names the line but not its text: other lines contain passwords.
func TestErrorOfEnvironmentFileContainsNoValues(t *testing.T) {
	for text, want := range map[string]string{
		"APP_PORT=1\nFOO BAR baz\nBASIC_AUTH_PASSWORD=hunter2-hunter2\n": "read .env: line 2 is not NAME=value",
		"A=\"1\n2\"\nB=\"\nC=1\nBASIC_AUTH_PASSWORD=hunter2-hunter2":     "read .env: line 3 is not NAME=value",
	} {
		t.Chdir(t.TempDir())
		if err := os.WriteFile(".env", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := LoadEnvironment(); err == nil || err.Error() != want {
			t.Errorf("%q: the error is %v", text, err)
		}
	}
}

func TestFilesOfSecretsCanBeginWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	key, database := filepath.Join(folder, "key"), Database{DataDir: folder, DatabaseURL: "postgres://db/lksms"}
	for path, text := range map[string]string{key: secret.NewKey(), database.PasswordFile(): "a-long-password"} {
		if err := os.WriteFile(path, []byte("\uFEFF"+text+"\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := SecretBox(Outbound{SecretsFile: key}, database); err != nil {
		t.Error(err)
	}
	if password, _, err := ResolvePassword(Account{}, database, false); err != nil || password != "a-long-password" {
		t.Errorf("the password is %q, %v", string(password), err)
	}
}

// parse reads the settings from env only, not from the environment or from a .env file.
func parse(t *testing.T, env map[string]string) (Server, error) {
	t.Helper()
	for _, name := range Variables() {
		t.Setenv(name, env[name])
	}
	t.Chdir(t.TempDir()) // without a .env file
	if err := LoadEnvironment(); err != nil {
		t.Fatal(err)
	}
	var s Server
	parser, err := kong.New(&s, Booleans(), kong.Vars{"data_dir": "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(nil)
	return s, err
}

func TestLogLevelsAndSwitchesIgnoreLetterCase(t *testing.T) {
	for text, want := range map[string]slog.Level{
		"": slog.LevelInfo, "INFO": slog.LevelInfo, "Debug": slog.LevelDebug, "warn": slog.LevelWarn, "WARNING": slog.LevelWarn,
		"Error": slog.LevelError, "CRITICAL": slog.LevelError,
	} {
		s, err := parse(t, map[string]string{"LOG_LEVEL": text, "LOG_FORMAT": "JSON"})
		if err != nil || s.SlogLevel() != want || s.Format != "json" {
			t.Errorf("LOG_LEVEL=%s: %v %s %v", text, s.SlogLevel(), s.Format, err)
		}
	}
	for text, want := range map[string]bool{
		"": true, "True": true, "YES": true, "on": true, "1": true, "False": false, "no": false, "OFF": false, "0": false,
	} {
		s, err := parse(t, map[string]string{"ENABLE_DOCS": text})
		if err != nil || s.EnableDocs != want {
			t.Errorf("ENABLE_DOCS=%s: %v %v", text, s.EnableDocs, err)
		}
	}
	for name, text := range map[string]string{"DEBUG": "perhaps", "LOG_LEVEL": "loud", "LOG_FORMAT": "xml"} {
		if _, err := parse(t, map[string]string{name: text}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, text, err)
		}
	}
}

func TestCORSOriginsMustBeExactOrigins(t *testing.T) {
	for text, isGood := range map[string]bool{
		"https://console.example.com": true, "http://localhost:5173,HTTPS://Console.example.com:8443": true,
		"*": false, "https://*.example.com": false, "https://x.example/y": false, "https://x.example/": false, "https://x.example?y": false,
		"https://x.example#y": false, "https://user@x.example": false, "ftp://x.example": false, "x.example": false, "null": false,
	} {
		s, err := parse(t, map[string]string{"CORS_ORIGINS": text})
		if err == nil {
			err = s.Validate()
		}
		if isGood && err != nil || !isGood && (err == nil || !strings.Contains(err.Error(), "CORS_ORIGINS")) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAnEmptyVariableUsesTheDefault(t *testing.T) {
	s, err := parse(t, nil)
	if err != nil || s.Port != 8000 || s.Username != "admin" || !s.EnableDocs || s.Debug || s.MaxRetryCount != 3 || len(s.TrustedProxies) != 0 {
		t.Errorf("%+v %v", s, err)
	}
}

func TestBooleanSettingsCanBeSetByFlags(t *testing.T) {
	var s Server
	parser, err := kong.New(&s, Booleans(), kong.Vars{"data_dir": "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"--debug", "--no-enable-docs"}); err != nil || !s.Debug || s.EnableDocs {
		t.Errorf("%v %v %v", s.Debug, s.EnableDocs, err)
	}
	if _, err := parser.Parse([]string{"--no-debug", "--enable-docs=On"}); err != nil || s.Debug || !s.EnableDocs {
		t.Errorf("%v %v %v", s.Debug, s.EnableDocs, err)
	}
}

func TestAConfiguredPasswordHasAMinimumLength(t *testing.T) {
	for password, isTaken := range map[string]bool{
		"": true, "x": false, "elevencharz": false, "密码密码密码密码密码密": false, "密码密码密码密码密码密码": true, "twelve chars": true,
		"your_password_here": true, "your_secure_password": true, "your_secure_password_here": true, // passwords that the documents contain
	} {
		_, err := parse(t, map[string]string{"BASIC_AUTH_PASSWORD": password})
		if isTaken != (err == nil) {
			t.Errorf("%q: %v", password, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "BASIC_AUTH_PASSWORD") || strings.Contains(err.Error(), password+" ")) {
			t.Errorf("%q is refused with %v", password, err)
		}
	}
}

func TestAStoredPasswordHasAMinimumLength(t *testing.T) {
	t.Parallel()
	database := Database{DataDir: t.TempDir()}
	generated, _, err := ResolvePassword(Account{}, database, true)
	if err != nil || isShort(generated) {
		t.Fatalf("%d characters, %v", len(generated), err)
	}
	for _, content := range []string{"", "\n", "short\n"} {
		if err := os.WriteFile(database.PasswordFile(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ResolvePassword(Account{}, database, true); err == nil || !strings.Contains(err.Error(), database.PasswordFile()) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestTracesGoToTheConfiguredCollector(t *testing.T) {
	for endpoint, want := range map[string]string{
		"": "", "http://127.0.0.1:4318": "http://127.0.0.1:4318/v1/traces", "https://otel.example/in/": "https://otel.example/in/v1/traces",
	} {
		s, err := parse(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
		if err == nil {
			err = s.Validate()
		}
		if err != nil || s.TraceURL() != want {
			t.Errorf("%q: %q %v", endpoint, s.TraceURL(), err)
		}
	}
	for _, endpoint := range []string{"127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://"} {
		s, err := parse(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
		if err == nil {
			err = s.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_ENDPOINT") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

func TestAUserNameWithAColonIsRefused(t *testing.T) {
	_, err := parse(t, map[string]string{"BASIC_AUTH_USERNAME": "ops:admin"})
	if err == nil || !strings.Contains(err.Error(), "BASIC_AUTH_USERNAME must not contain a colon") {
		t.Errorf("%v", err)
	}
}

func TestAnInvalidBasePathIsRefused(t *testing.T) {
	for text, isPath := range map[string]bool{"/lksms": true, "/a/b-c": true, "lksms": false, "/lksms/": false, "/": false, "/a//b": false, "/a?b": false,
		"/.": false, "/..": false, "/a/../b": false, "/a/.": false, "/.well-known": true, "/a..b": true,
		"/api": false, "/api/v1": false, "/api/v1/sms": false, "/app": false, "/console": false, "/ready": false, "/smsgate": false, "/apis": true, "/api/lksms": true} {
		if _, err := parse(t, map[string]string{"BASE_PATH": text}); (err == nil) != isPath {
			t.Errorf("%s: %v", text, err)
		}
	}
}
