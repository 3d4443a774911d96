// Package config owns the configuration. It is the only reader of the environment: it merges flags, variables and a .env file into one struct at the start.
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
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/internal/platform/outbound"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/smpp"

	"golang.org/x/term"
)

// Secret is a string that is never printed or logged.
type Secret string

func (Secret) String() string { return "(secret)" }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue("(secret)") }

// Database configures the database. Without a URL, a private PostgreSQL is started in DataDir.
type Database struct {
	DatabaseURL Secret `name:"database-url" env:"DATABASE_URL" placeholder:"postgresql://user:password@host:5432/name" help:"PostgreSQL to use. Without it, a private server is started."`
	DataDir     string `name:"data-dir" env:"LKSMS_DATA" default:"${data_dir}" help:"Folder of the private PostgreSQL and of the generated password."`
	PostgresBin string `name:"pg-bin" env:"LKSMS_PG_BIN" help:"Folder of initdb and postgres. Without it, the usual folders are searched."`
}

// Account configures an admin that is stored in no table (S0.7).
type Account struct {
	Username string `name:"basic-auth-username" env:"BASIC_AUTH_USERNAME" default:"admin" help:"User name of the configured admin."`
	Password Secret `name:"basic-auth-password" env:"BASIC_AUTH_PASSWORD" help:"Password of the configured admin, at least 12 characters. Without it, a password is generated and kept in the data folder."`
}

// Edge configures connections from callers.
type Edge struct {
	MaxConnections int      `name:"max-connections" env:"MAX_CONNECTIONS" default:"4096" help:"Most connections at once. Further callers are answered 503."`
	MaxOfAddress   int      `name:"max-connections-per-address" env:"MAX_CONNECTIONS_PER_ADDRESS" default:"0" help:"Most connections at once from one address that is not a trusted proxy. 0: half of MAX_CONNECTIONS."`
	TrustedProxies []string `name:"trusted-proxies" env:"TRUSTED_PROXIES" placeholder:"10.0.0.0/8,..." help:"Addresses or networks of proxies whose X-Forwarded-For is trusted."`
	BasePath       string   `name:"base-path" env:"BASE_PATH" placeholder:"/lksms" help:"Path below which a proxy in front of the server serves the API, the console and the documentation. Requests may come with or without it."`
	CORSOrigins    []string `name:"cors-origins" env:"CORS_ORIGINS" placeholder:"https://console.example.com,..." help:"Origins of web pages that can call the API. Default: none."`
	TLSCertFile    string   `name:"tls-cert-file" env:"TLS_CERT_FILE" help:"Certificate file for TLS. The file is read again when it changes."`
	TLSKeyFile     string   `name:"tls-key-file" env:"TLS_KEY_FILE" help:"Key file of the certificate."`
}

// Proxies returns TrustedProxies as networks.
func (e *Edge) Proxies() ([]netip.Prefix, error) {
	return networks("TRUSTED_PROXIES", e.TrustedProxies)
}

// networks parses the list of networks in a variable. The error names the variable.
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
		return errors.New("TLS_CERT_FILE and TLS_KEY_FILE must be set together")
	}
	for _, origin := range e.CORSOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || !strings.EqualFold(origin, u.Scheme+"://"+u.Host) {
			return fmt.Errorf("CORS_ORIGINS: %q is not an origin such as https://console.example.com", origin)
		}
		if strings.Contains(origin, "*") {
			return fmt.Errorf("CORS_ORIGINS: %q contains a *: list each origin", origin)
		}
	}
	if err := checkBasePath(e.BasePath); err != nil {
		return err
	}
	_, err := e.Proxies()
	return err
}

var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// OwnPaths are the beginnings of the paths that the server serves.
var OwnPaths = []string{"/api/v1", "/app/api/v1", "/cgi-bin", "/console", "/docs", "/health", "/metrics", "/openapi.json", "/openapi.yaml", "/ready", "/smsgate/3rdparty/v1", "/smsgate/mobile/v1"}

// checkBasePath refuses a base path that the server could not remove from the paths of requests: a path without this base path could begin with it.
func checkBasePath(path string) error {
	if path == "" {
		return nil
	}
	if !basePath.MatchString(path) {
		return fmt.Errorf("BASE_PATH: %q is not a path such as /lksms, without a / at its end", path)
	}
	if slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool { return segment == "." || segment == ".." }) {
		return fmt.Errorf("BASE_PATH: %q contains the segment . or .., which clients remove: write the path without it", path)
	}
	for _, own := range OwnPaths {
		if strings.HasPrefix(own+"/", path+"/") || strings.HasPrefix(path+"/", own+"/") {
			return fmt.Errorf("BASE_PATH: %q is a part of the path %s of the server: choose another path, such as /lksms", path, own)
		}
	}
	return nil
}

// SMPP configures the server for programs that bind over SMPP.
type SMPP struct {
	Listen       string `name:"smpp-listen" env:"SMPP_LISTEN" placeholder:"0.0.0.0:2775" help:"Address to accept SMPP on, without encryption. Default: none."`
	ListenTLS    string `name:"smpp-tls-listen" env:"SMPP_TLS_LISTEN" placeholder:"0.0.0.0:3550" help:"Address to accept SMPP on over TLS, with the certificate of TLS_CERT_FILE. Default: none."`
	BindsPerUser int    `name:"smpp-binds-per-user" env:"SMPP_BINDS_PER_USER" default:"20" help:"Most SMPP binds of one user at once, on this server."`
	Window       int    `name:"smpp-window" env:"SMPP_WINDOW" default:"100" help:"Most SMPP requests of one bind without an answer, in each direction. Further requests are answered ESME_RTHROTTLED."`
	PerSecond    int    `name:"smpp-per-second" env:"SMPP_PER_SECOND" default:"0" help:"Most messages per second that one user submits over SMPP to this server. 0: no limit."`
	MessageIDs   string `name:"smpp-message-ids" env:"SMPP_MESSAGE_IDS" default:"task" help:"message_id of SMPP: task, the id of the task, or short, a decimal number."`
	Alphabet     string `name:"smpp-alphabet" env:"SMPP_ALPHABET" default:"gsm7" help:"Alphabet of data_coding 0 in SMPP: gsm7, latin1 or ascii."`
}

// ShortIDs is the value of SMPP_MESSAGE_IDS for short ids.
const ShortIDs = "short"

// alphabets contains the values of SMPP_ALPHABET.
var alphabets = map[string]smpp.Alphabet{"gsm7": smpp.GSM7, "latin1": smpp.Latin1, "ascii": smpp.ASCII}

// TextAlphabet returns Alphabet as an alphabet of SMPP.
func (s *SMPP) TextAlphabet() smpp.Alphabet { return alphabets[s.Alphabet] }

func (s *SMPP) validate(e *Edge) error {
	for name, address := range map[string]string{"SMPP_LISTEN": s.Listen, "SMPP_TLS_LISTEN": s.ListenTLS} {
		if _, _, err := net.SplitHostPort(address); address != "" && err != nil {
			return fmt.Errorf("%s: %q is not an address such as 0.0.0.0:2775", name, address)
		}
	}
	_, isAlphabet := alphabets[s.Alphabet]
	switch {
	case s.ListenTLS != "" && e.TLSCertFile == "":
		return errors.New("SMPP_TLS_LISTEN needs TLS_CERT_FILE and TLS_KEY_FILE")
	case s.BindsPerUser < 1:
		return errors.New("SMPP_BINDS_PER_USER must be at least 1")
	case s.Window < 1 || s.Window > maxSMPPWindow:
		return fmt.Errorf("SMPP_WINDOW must be between 1 and %d", maxSMPPWindow)
	case s.PerSecond < 0:
		return errors.New("SMPP_PER_SECOND must not be negative")
	case s.MessageIDs != "task" && s.MessageIDs != ShortIDs:
		return fmt.Errorf("SMPP_MESSAGE_IDS: %q is neither task nor short", s.MessageIDs)
	case !isAlphabet:
		return fmt.Errorf("SMPP_ALPHABET: %q is not gsm7, latin1 or ascii", s.Alphabet)
	}
	return nil
}

const maxSMPPWindow = 1000

// Outbound configures the addresses that drivers can connect to, and the key that encrypts their credentials.
type Outbound struct {
	SecretsKey  Secret   `name:"secrets-key" env:"SECRETS_KEY" placeholder:"32 bytes in base64" help:"Key that encrypts the secrets of senders. All servers of a database need the same key."`
	SecretsFile string   `name:"secrets-key-file" env:"SECRETS_KEY_FILE" placeholder:"secrets.key of the data folder, with a private PostgreSQL" help:"File of the key, if SECRETS_KEY is not set. If the file is missing, a key is generated in it."`
	SecretsOld  Secret   `name:"secrets-key-old" env:"SECRETS_KEY_OLD" help:"Previous key, needed until lksms secrets rotate has run."`
	AllowedNets []string `name:"outbound-allow" env:"OUTBOUND_ALLOW" placeholder:"10.0.0.0/8,..." help:"Addresses or networks that drivers can connect to, and no others. Default: all."`
	DeniedNets  []string `name:"outbound-deny" env:"OUTBOUND_DENY" placeholder:"10.1.0.0/16,..." help:"Addresses or networks that drivers cannot connect to. Link-local and metadata addresses are always denied."`
}

// Policy returns AllowedNets and DeniedNets as a policy.
func (o *Outbound) Policy() (outbound.Policy, error) {
	allow, err := networks("OUTBOUND_ALLOW", o.AllowedNets)
	if err != nil {
		return outbound.Policy{}, err
	}
	deny, err := networks("OUTBOUND_DENY", o.DeniedNets)
	return outbound.Policy{Allow: allow, Deny: deny}, err
}

// Log configures the log of the server.
type Log struct {
	Debug  bool      `name:"debug" env:"DEBUG" negatable:"" help:"The same as --log-level=debug."`
	Level  LogLevel  `name:"log-level" env:"LOG_LEVEL" default:"info" help:"Lowest level to log: debug, info, warn or error."`
	Format LogFormat `name:"log-format" env:"LOG_FORMAT" default:"auto" help:"text, json or auto. auto: text on a terminal, JSON otherwise."`
}

// Tracing configures the export of traces. The OpenTelemetry exporter itself reads the other OTEL_ variables.
type Tracing struct {
	Endpoint string `name:"otlp-endpoint" env:"OTEL_EXPORTER_OTLP_ENDPOINT" placeholder:"http://127.0.0.1:4318" help:"OpenTelemetry collector to which traces are sent as OTLP over HTTP. Default: none."`
}

// TraceURL returns the address to which traces are posted. An empty address means that no traces are exported.
func (t *Tracing) TraceURL() string {
	if t.Endpoint == "" {
		return ""
	}
	return strings.TrimSuffix(t.Endpoint, "/") + "/v1/traces"
}

func (t *Tracing) validate() error {
	if t.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("OTEL_EXPORTER_OTLP_ENDPOINT must be an HTTP address, such as http://127.0.0.1:4318")
	}
	return nil
}

// Server is the configuration of lksms serve.
type Server struct {
	Host string `name:"app-host" env:"APP_HOST" default:"127.0.0.1" help:"Address to listen on. 0.0.0.0: all addresses."`
	Port int    `name:"app-port" env:"APP_PORT" default:"8000" help:"Port to listen on."`

	RoleNames []string `name:"roles" env:"ROLES" placeholder:"api,claim,..." help:"What this server does, of: api, claim, callback, push, sweep, watch, webhook, console, smpp. Default: all."`

	Account  `embed:""`
	Database `embed:""`
	Edge     `embed:""`
	SMPP     SMPP `embed:""`
	Outbound `embed:""`
	Tracing  `embed:""`

	MaxRetryCount            int           `name:"max-retry-count" env:"MAX_RETRY_COUNT" default:"3" help:"Retries of a task after its first attempt, 0 to 20."`
	RetryDelayMinutes        float64       `name:"retry-delay-minutes" env:"RETRY_DELAY_MINUTES" default:"5" help:"Minutes before a retry that a sender asked for. Fractions are allowed."`
	RetryMaxWait             time.Duration `name:"retry-max-wait" env:"RETRY_MAX_WAIT" default:"10m" help:"A retry that has been due for this time is treated as a new task. 0: never."`
	ProcessingTimeoutMinutes float64       `name:"processing-timeout-minutes" env:"PROCESSING_TIMEOUT_MINUTES" default:"30" help:"Minutes that a lease of a task lasts. Fractions are allowed."`

	ReplicaURL    Secret        `name:"database-replica-url" env:"DATABASE_REPLICA_URL" placeholder:"postgresql://user:password@host1:5432,host2:5432/name" help:"Standbys of the database that answer reads which may be some seconds old. Default: none."`
	ReplicaMaxLag time.Duration `name:"database-replica-max-lag" env:"DATABASE_REPLICA_MAX_LAG" default:"5s" help:"A standby that is further behind is not used. 2s to 1h."`

	HistoryDir  string `name:"history-dir" env:"HISTORY_DIR" help:"Folder for exports of old tasks, private to the server. Without it, nothing is exported."`
	PlatformURL string `name:"platform-url" env:"PLATFORM_URL" help:"Value of platformUrl in notifications whose payload has none."`

	EnableKannel bool `name:"enable-kannel" env:"ENABLE_KANNEL" negatable:"" help:"Answer Kannel's /cgi-bin/sendsms. Its callers send passwords in the address, which proxies log."`

	EnableDocs bool `name:"enable-docs" env:"ENABLE_DOCS" default:"true" negatable:"" help:"Serve Swagger UI, the manual and the OpenAPI document."`

	Log `embed:""`
}

// maxRetryCap is the maximum of queue.retry_count that the table allows. It must stay below 32, because queue.lane is 32 * priority + retry_count.
const maxRetryCap = 20

// maxRetryMaxWait is the maximum of the setting queue.retry_max_wait_seconds.
const maxRetryMaxWait = 720 * time.Hour

// samplePasswords are passwords that public documents contain.
var samplePasswords = []Secret{"your_password_here", "your_secure_password"}

// examplePassword is the password in the .env.example of the Python service. That file also sets an APP_HOST that other machines can reach. A server must start
// with that file. Therefore this password only causes a warning, while samplePasswords are rejected.
const examplePassword Secret = "your_secure_password_here"

// IsSamplePassword reports whether public documents contain the password.
func (a *Account) IsSamplePassword() bool {
	return a.Password == examplePassword || slices.Contains(samplePasswords, a.Password)
}

// Validate rejects a configuration that a server must not start with. The error names the variable.
func (s *Server) Validate() error {
	const week = 7 * 24 * 60
	switch {
	case s.Port < 0 || s.Port > 65535:
		return errors.New("APP_PORT must be between 0 and 65535")
	case s.MaxRetryCount < 0 || s.MaxRetryCount > maxRetryCap:
		return fmt.Errorf("MAX_RETRY_COUNT must be between 0 and %d", maxRetryCap)
	case !(s.RetryDelayMinutes >= 0 && s.RetryDelayMinutes <= week):
		return fmt.Errorf("RETRY_DELAY_MINUTES must be between 0 and %d", week)
	case s.RetryMaxWait < 0 || s.RetryMaxWait > maxRetryMaxWait:
		return fmt.Errorf("RETRY_MAX_WAIT must be between 0 and %s", maxRetryMaxWait)
	case !(s.ProcessingTimeoutMinutes > 0 && s.ProcessingTimeoutMinutes <= week):
		return fmt.Errorf("PROCESSING_TIMEOUT_MINUTES must be more than 0 and at most %d", week)
	case s.ReplicaURL != "" && s.DatabaseURL == "":
		return errors.New("DATABASE_REPLICA_URL needs DATABASE_URL: a private PostgreSQL has no replicas")
	case s.ReplicaMaxLag < 2*time.Second || s.ReplicaMaxLag > time.Hour:
		return errors.New("DATABASE_REPLICA_MAX_LAG must be between 2s and 1h")
	case s.Username == "":
		return errors.New("BASIC_AUTH_USERNAME must not be empty")
	case strings.Contains(s.Username, ":"):
		return errors.New("BASIC_AUTH_USERNAME must not contain a colon: HTTP Basic Auth separates the name from the password with it")
	case s.Password != "" && isShort(s.Password):
		return fmt.Errorf("BASIC_AUTH_PASSWORD is too short: it needs at least %d characters; leave it unset to have a password generated", MinPassword)
	}
	for _, sample := range samplePasswords {
		if s.Password == sample && !isLoopback(s.Host) {
			return errors.New("BASIC_AUTH_PASSWORD is a sample from the documentation, and APP_HOST is not a loopback address: set a password of your own")
		}
	}
	if _, err := s.Roles(); err != nil {
		return err
	}
	if _, err := s.Policy(); err != nil {
		return err
	}
	if err := s.Tracing.validate(); err != nil {
		return err
	}
	if err := s.SMPP.validate(&s.Edge); err != nil {
		return err
	}
	return s.Edge.validate()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Roles returns RoleNames as roles.
func (s *Server) Roles() (servers.Roles, error) {
	roles, err := servers.ParseRoles(s.RoleNames)
	if err != nil {
		return nil, fmt.Errorf("ROLES: %w", err)
	}
	return roles, nil
}

// RetryDelay returns RetryDelayMinutes as a duration.
func (s *Server) RetryDelay() time.Duration { return minutes(s.RetryDelayMinutes) }

// ProcessingTimeout returns ProcessingTimeoutMinutes as a duration.
func (s *Server) ProcessingTimeout() time.Duration { return minutes(s.ProcessingTimeoutMinutes) }

func minutes(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }

// Address returns the host and port to listen on.
func (s *Server) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// SlogLevel returns the lowest level to log.
func (l *Log) SlogLevel() slog.Level {
	if l.Debug {
		return slog.LevelDebug
	}
	return slog.Level(l.Level)
}

// Logger returns a logger that writes to standard error.
func (l *Log) Logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: l.SlogLevel()}
	if l.Format == "text" || l.Format == "auto" && term.IsTerminal(int(os.Stderr.Fd())) {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}

// DefaultDataDir returns /var/lib/lksms for root. For another user it returns a folder in the data folder of the user.
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

// UnpackedPostgres returns globs of the folders into which make unpacks PostgreSQL if no package manager has installed PostgreSQL.
func UnpackedPostgres() []string {
	return []string{filepath.Join(DefaultDataDir(), "pgsql", "*", "bin")}
}

// PostgresBin returns the value of LKSMS_PG_BIN, for tests.
func PostgresBin() string { return os.Getenv("LKSMS_PG_BIN") }

// TestServerVariable is the variable that contains the URL of the PostgreSQL shared by tests.
const TestServerVariable = "LKSMS_TEST_SERVER"

// TestServer returns the value of TestServerVariable, the URL of a superuser. An empty value means that each test process starts its own PostgreSQL.
func TestServer() string { return os.Getenv(TestServerVariable) }

// IsCI reports whether the tests run in CI, where a missing program is an error.
func IsCI() bool { return os.Getenv("CI") == "true" }

// TestAnswers returns LKSMS_TEST_ANSWERS: the folder in which test processes record which statuses of the contract they received. An empty value turns the
// recording off.
func TestAnswers() string { return os.Getenv("LKSMS_TEST_ANSWERS") }
