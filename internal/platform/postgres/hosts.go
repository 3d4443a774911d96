package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// parse parses a URL, which can name several hosts.
func parse(databaseURL string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, redact(err)
	}
	settle(cfg)
	return cfg, nil
}

// connectLimit is the time limit for connecting to one host. A URL can set a shorter limit with connect_timeout.
const connectLimit = 5 * time.Second

// settle makes a connection to several hosts skip hosts that hang. If the URL sets no target_session_attrs, the connection also skips read-only hosts.
//
// A role or a URL can request another encoding of texts. settle requests UTF-8, which pgx sends and expects.
//
// A URL can request unnamed statements, because a pooler can assign each message to another session. settle then uses CacheDescribe: of the pgx modes with only
// unnamed statements, only this mode knows the types of parameters, which jsonb and arrays of records need.
func settle(cfg *pgx.ConnConfig) {
	if cfg.ConnectTimeout <= 0 || cfg.ConnectTimeout > connectLimit {
		cfg.ConnectTimeout = connectLimit
	}
	if cfg.ValidateConnect == nil && len(hostsOf(&cfg.Config)) > 1 {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	pin(cfg.RuntimeParams, "client_encoding", "UTF8") // stronger than ALTER ROLE and than the options of the URL; PgBouncer supports this parameter
	if (cfg.DefaultQueryExecMode == pgx.QueryExecModeExec || cfg.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol) && cfg.DescriptionCacheCapacity > 0 {
		cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
}

// pin sets a parameter of PostgreSQL, whose name a URL can write in upper case.
func pin(params map[string]string, name, value string) {
	for other := range params {
		if strings.EqualFold(other, name) {
			delete(params, other)
		}
	}
	params[name] = value
}

// hostsOf returns the ways to connect, grouped by host: each host can be tried with TLS and without TLS.
func hostsOf(cfg *pgconn.Config) [][]*pgconn.FallbackConfig {
	all := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	var hosts [][]*pgconn.FallbackConfig
	for i, way := range all {
		if i > 0 && way.Host == all[i-1].Host && way.Port == all[i-1].Port {
			hosts[len(hosts)-1] = append(hosts[len(hosts)-1], way)
			continue
		}
		hosts = append(hosts, []*pgconn.FallbackConfig{way})
	}
	return hosts
}

// Connect connects to the first host of a URL that answers and meets the requirements of the URL. The Config of the connection contains this host.
func Connect(ctx context.Context, databaseURL, applicationName string) (*pgx.Conn, error) {
	cfg, err := parse(databaseURL)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = applicationName
	return connectOne(ctx, cfg)
}

// connectOne connects to the first host that answers and meets the requirements of the URL. Unlike after pgx.ConnectConfig, the Config of the connection
// contains this host.
func connectOne(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	var all error
	for _, ways := range hostsOf(&cfg.Config) {
		own := cfg.Copy()
		own.Host, own.Port, own.TLSConfig, own.Fallbacks = ways[0].Host, ways[0].Port, ways[0].TLSConfig, ways[1:]
		conn, err := pgx.ConnectConfig(ctx, own)
		if err == nil {
			return conn, nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}
