// Package config is the only reader of the environment: flags, variables and a .env file become one struct, once.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/internal/outbound"
)

// Secret is a string that does not print.
type Secret string

func (Secret) String() string { return "(secret)" }

// LogValue keeps it out of logs.
func (Secret) LogValue() slog.Value { return slog.StringValue("(secret)") }

// Database says where the data is. Without a URL, a private PostgreSQL is started in DataDir.
type Database struct {
	DatabaseURL Secret `name:"database-url" env:"DATABASE_URL" placeholder:"postgresql://user:password@host:5432/name" help:"PostgreSQL to use; without it a private one is started."`
	DataDir     string `name:"data-dir" env:"LKSMS_DATA" default:"${data_dir}" help:"Folder of the private PostgreSQL and of the generated password."`
	PostgresBin string `name:"pg-bin" env:"LKSMS_PG_BIN" help:"Folder of initdb and postgres; without it the usual places are searched."`
}

// Account is the bootstrap user (S0.7).
type Account struct {
	Username string `name:"basic-auth-username" env:"BASIC_AUTH_USERNAME" default:"admin" help:"User name for HTTP Basic Auth."`
	Password Secret `name:"basic-auth-password" env:"BASIC_AUTH_PASSWORD" help:"Its password, at least 12 characters; without it one is generated and kept in the data folder."`
}

// Edge says how the server meets the network.
type Edge struct {
	MaxConnections int      `name:"max-connections" env:"MAX_CONNECTIONS" default:"4096" help:"Connections at once; a caller beyond them is told to come back."`
	MaxOfAddress   int      `name:"max-connections-per-address" env:"MAX_CONNECTIONS_PER_ADDRESS" default:"0" help:"Connections at once from one address, other than trusted proxies; 0 for half of MAX_CONNECTIONS."`
	TrustedProxies []string `name:"trusted-proxies" env:"TRUSTED_PROXIES" placeholder:"10.0.0.0/8,..." help:"Whose X-Forwarded-For is believed: addresses or networks."`
	CORSOrigins    []string `name:"cors-origins" env:"CORS_ORIGINS" placeholder:"https://console.example.com,..." help:"Web pages of which origins may call the API; none by default."`
	TLSCertFile    string   `name:"tls-cert-file" env:"TLS_CERT_FILE" help:"Certificate to serve TLS with; read again when it changes."`
	TLSKeyFile     string   `name:"tls-key-file" env:"TLS_KEY_FILE" help:"Its key."`
}

// Proxies are TrustedProxies as networks.
func (e *Edge) Proxies() ([]netip.Prefix, error) {
	return networks("TRUSTED_PROXIES", e.TrustedProxies)
}

// networks reads what a variable lists.
func networks(variable string, texts []string) ([]netip.Prefix, error) {
	all, err := outbound.Networks(texts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return all, nil
}

func (e *Edge) validate() error {
	if e.MaxConnections < 1 {
		return errors.New("MAX_CONNECTIONS must be at least 1")
	}
	if e.MaxOfAddress < 0 {
		return errors.New("MAX_CONNECTIONS_PER_ADDRESS must not be negative")
	}
	if (e.TLSCertFile == "") != (e.TLSKeyFile == "") {
		return errors.New("TLS_CERT_FILE and TLS_KEY_FILE go together")
	}
	for _, origin := range e.CORSOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || !strings.EqualFold(origin, u.Scheme+"://"+u.Host) {
			return fmt.Errorf("CORS_ORIGINS: %q is not an origin such as https://console.example.com", origin)
		}
		if strings.Contains(origin, "*") {
			return fmt.Errorf("CORS_ORIGINS: %q has a *: name each origin", origin)
		}
	}
	_, err := e.Proxies()
	return err
}

// Outbound says where drivers may connect to, and how the secrets are kept with which they log in there.
type Outbound struct {
	SecretsKey  Secret   `name:"secrets-key" env:"SECRETS_KEY" placeholder:"32 bytes in base64" help:"Seals the secrets of senders; all servers of a database need the same."`
	SecretsFile string   `name:"secrets-key-file" env:"SECRETS_KEY_FILE" placeholder:"secrets.key of the data folder, with a private PostgreSQL" help:"File of the key, if SECRETS_KEY is not set; if it is missing, a key is generated and kept there."`
	SecretsOld  Secret   `name:"secrets-key-old" env:"SECRETS_KEY_OLD" help:"The key before that, until lksms secrets rotate has run."`
	AllowedNets []string `name:"outbound-allow" env:"OUTBOUND_ALLOW" placeholder:"10.0.0.0/8,..." help:"Where senders may connect to, and nowhere else: addresses or networks. Everywhere by default."`
	DeniedNets  []string `name:"outbound-deny" env:"OUTBOUND_DENY" placeholder:"10.1.0.0/16,..." help:"Where they may not. Link-local and metadata addresses they never may."`
}

// Policy is where drivers may connect to.
func (o *Outbound) Policy() (outbound.Policy, error) {
	allow, err := networks("OUTBOUND_ALLOW", o.AllowedNets)
	if err != nil {
		return outbound.Policy{}, err
	}
	deny, err := networks("OUTBOUND_DENY", o.DeniedNets)
	return outbound.Policy{Allow: allow, Deny: deny}, err
}

// Log says what the server says of itself.
type Log struct {
	Debug  bool      `name:"debug" env:"DEBUG" negatable:"" help:"The same as --log-level=debug."`
	Level  LogLevel  `name:"log-level" env:"LOG_LEVEL" default:"info" help:"Least level to log: debug, info, warn or error."`
	Format LogFormat `name:"log-format" env:"LOG_FORMAT" default:"auto" help:"text, json or auto, which is text on a terminal and JSON elsewhere."`
}

// Server is everything that lksms serve needs.
type Server struct {
	Host string `name:"app-host" env:"APP_HOST" default:"127.0.0.1" help:"Address to listen on; 0.0.0.0 for every one."`
	Port int    `name:"app-port" env:"APP_PORT" default:"8000" help:"Port to listen on."`

	Account  `embed:""`
	Database `embed:""`
	Edge     `embed:""`
	Outbound `embed:""`

	MaxRetryCount            int           `name:"max-retry-count" env:"MAX_RETRY_COUNT" default:"3" help:"Attempts after the first, 0 to 20."`
	RetryDelayMinutes        float64       `name:"retry-delay-minutes" env:"RETRY_DELAY_MINUTES" default:"5" help:"Wait before an attempt that a sender asked for; fractions are allowed."`
	RetryMaxWait             time.Duration `name:"retry-max-wait" env:"RETRY_MAX_WAIT" default:"10m" help:"A retry that has been due for so long goes out as if it were new; 0 for never."`
	ProcessingTimeoutMinutes float64       `name:"processing-timeout-minutes" env:"PROCESSING_TIMEOUT_MINUTES" default:"30" help:"How long a sender may hold a task; fractions are allowed."`

	PlatformURL string `name:"platform-url" env:"PLATFORM_URL" help:"What platformUrl means in notifications whose payload does not say."`

	EnableDocs bool `name:"enable-docs" env:"ENABLE_DOCS" default:"true" negatable:"" help:"Serve Swagger UI and the OpenAPI document."`

	Log `embed:""`
}

// maxRetryCap is the most that the table takes; the claim looks for retries under each count up to it.
const maxRetryCap = 20

// samplePasswords stand in the documents for everybody to read.
var samplePasswords = []Secret{"your_password_here", "your_secure_password"}

// examplePassword stands in the .env.example of the Python service, which opens its host to others in the same file. A
// server must start with that file, so it warns where it refuses the others.
const examplePassword Secret = "your_secure_password_here"

// IsSamplePassword tells whether everybody can read the password.
func (a *Account) IsSamplePassword() bool {
	return a.Password == examplePassword || slices.Contains(samplePasswords, a.Password)
}

// Validate refuses what a server must not start with, naming the variable.
func (s *Server) Validate() error {
	const week = 7 * 24 * 60
	switch {
	case s.Port < 0 || s.Port > 65535:
		return errors.New("APP_PORT must be between 0 and 65535")
	case s.MaxRetryCount < 0 || s.MaxRetryCount > maxRetryCap:
		return fmt.Errorf("MAX_RETRY_COUNT must be between 0 and %d", maxRetryCap)
	case !(s.RetryDelayMinutes >= 0 && s.RetryDelayMinutes <= week):
		return fmt.Errorf("RETRY_DELAY_MINUTES must be between 0 and %d", week)
	case s.RetryMaxWait < 0:
		return errors.New("RETRY_MAX_WAIT must not be negative")
	case !(s.ProcessingTimeoutMinutes > 0 && s.ProcessingTimeoutMinutes <= week):
		return fmt.Errorf("PROCESSING_TIMEOUT_MINUTES must be more than 0 and at most %d", week)
	case s.Username == "":
		return errors.New("BASIC_AUTH_USERNAME must not be empty")
	case s.Password != "" && isShort(s.Password):
		return fmt.Errorf("BASIC_AUTH_PASSWORD is too short: it needs at least %d characters; without one, a password is generated", MinPassword)
	}
	for _, sample := range samplePasswords {
		if s.Password == sample && !isLoopback(s.Host) {
			return errors.New("BASIC_AUTH_PASSWORD is the sample from the documents, and APP_HOST is open to others: set a password of your own")
		}
	}
	if _, err := s.Policy(); err != nil {
		return err
	}
	return s.validate()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// RetryDelay is RetryDelayMinutes as a duration.
func (s *Server) RetryDelay() time.Duration { return minutes(s.RetryDelayMinutes) }

// ProcessingTimeout is ProcessingTimeoutMinutes as a duration.
func (s *Server) ProcessingTimeout() time.Duration { return minutes(s.ProcessingTimeoutMinutes) }

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

// Address is what to listen on.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// SlogLevel is the least level to log.
func (l *Log) SlogLevel() slog.Level {
	if l.Debug {
		return slog.LevelDebug
	}
	return slog.Level(l.Level)
}

// DefaultDataDir is /var/lib/lksms for root and the user's own data folder otherwise.
func DefaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/lksms"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "lksms")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join("/tmp", "lksms-"+strconv.Itoa(os.Geteuid()))
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "lksms")
	}
	return filepath.Join(home, ".local", "share", "lksms")
}

// UnpackedPostgres is where make unpacks a PostgreSQL that no package manager brought.
func UnpackedPostgres() []string {
	return []string{filepath.Join(DefaultDataDir(), "pgsql", "*", "bin")}
}

// PostgresBin is LKSMS_PG_BIN, for tests.
func PostgresBin() string { return os.Getenv("LKSMS_PG_BIN") }

// TestServerVariable names the PostgreSQL that tests share.
const TestServerVariable = "LKSMS_TEST_SERVER"

// TestServer is its URL as a superuser, empty when each test process starts its own.
func TestServer() string { return os.Getenv(TestServerVariable) }
