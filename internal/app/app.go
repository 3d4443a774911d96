// Package app builds the whole server from its packages, for lksms serve and for tests.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"lksms/internal/audience/batch"
	"lksms/internal/audience/blocklist"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/conversation"
	"lksms/internal/audience/erasure"
	"lksms/internal/audience/notification"
	"lksms/internal/audience/replyrule"
	"lksms/internal/audience/upload"
	"lksms/internal/audience/verification"
	"lksms/internal/dispatch/block"
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/job"
	"lksms/internal/dispatch/push"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/queue/admit"
	"lksms/internal/dispatch/queue/explain"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/quiet"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/dispatch/received"
	"lksms/internal/dispatch/sender"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/dispatch/template"
	"lksms/internal/events/feed"
	"lksms/internal/events/webhook"
	"lksms/internal/insight/alert"
	"lksms/internal/insight/alert/delivery"
	"lksms/internal/insight/audit"
	"lksms/internal/insight/history"
	"lksms/internal/insight/reconcile"
	"lksms/internal/insight/statistics"
	"lksms/internal/platform/access"
	"lksms/internal/platform/build"
	"lksms/internal/platform/config"
	"lksms/internal/platform/idempotency"
	"lksms/internal/platform/migrate"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
	"lksms/internal/platform/tracing"
	"lksms/internal/transport/httpapi"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/gate/capacity"
	"lksms/internal/transport/httpapi/stream"
	"lksms/internal/transport/inbound"
	"lksms/internal/transport/smppserver"
	"lksms/internal/transport/smsgate/mobile"
	"lksms/internal/transport/smsgate/thirdparty"
	"lksms/internal/transport/sqlinbox"
)

// Options configures an App.
type Options struct {
	DatabaseURL string
	Replicas    postgres.Replicas
	Username    string
	Password    string
	EnableDocs  bool
	Kannel      bool // also serve Kannel's sendsms
	SMPP        smppserver.Options
	Roles       servers.Roles // nil: all
	Rules       setting.Rules
	Log         *slog.Logger

	Secrets  *secret.Box // nil: secrets cannot be stored
	Outbound outbound.Policy

	PlatformURL string // value of ${platformUrl} in notifications
	HistoryDir  string // folder for exports; empty: exports are disabled

	TraceURL string // URL of the collector of traces; empty: traces are not exported

	Folders []string // folders whose file systems are monitored

	Now func() time.Time // the clock for cached credentials; nil: time.Now

	PasswordCost *argon2id.Params // see access.Options

	TLS            *tls.Config // nil: plain HTTP
	MaxConnections int         // 0: no limit
	MaxOfAddress   int         // maximum number of connections from one address; 0: half of MaxConnections
	TrustedProxies []netip.Prefix
	CORSOrigins    []string
	BasePath       string // see gate.Options
}

// FromConfig returns the options for a configuration. The caller has already determined the database and the password.
func FromConfig(cfg *config.Server, databaseURL string, password config.Secret, log *slog.Logger) (Options, error) {
	o, err := edgeOf(cfg, log)
	if err != nil {
		return Options{}, err
	}
	box, err := config.SecretBox(cfg.Outbound, cfg.Database)
	if err != nil {
		return Options{}, err
	}
	policy, err := cfg.Policy()
	if err != nil {
		return Options{}, err
	}
	roles, err := cfg.Roles()
	if err != nil {
		return Options{}, err
	}
	if cfg.DatabaseURL == "" {
		o.Folders = append(o.Folders, cfg.DataDir)
	}
	if cfg.HistoryDir != "" {
		o.Folders = append(o.Folders, cfg.HistoryDir)
	}
	o.Roles, o.Secrets, o.Outbound = roles, box, policy
	o.PlatformURL, o.HistoryDir, o.TraceURL = cfg.PlatformURL, cfg.HistoryDir, cfg.TraceURL()
	o.DatabaseURL, o.Replicas = databaseURL, postgres.Replicas{URL: string(cfg.ReplicaURL), MaxLag: cfg.ReplicaMaxLag}
	o.Username, o.Password = cfg.Username, string(password)
	o.EnableDocs, o.Kannel = cfg.EnableDocs, cfg.EnableKannel
	o.SMPP = smppserver.Options{
		Listen: cfg.SMPP.Listen, ListenTLS: cfg.SMPP.ListenTLS, BindsPerUser: cfg.SMPP.BindsPerUser, Window: cfg.SMPP.Window, PerSecond: cfg.SMPP.PerSecond,
		HasShortIDs: cfg.SMPP.MessageIDs == config.ShortIDs, Alphabet: cfg.SMPP.TextAlphabet(),
	}
	o.Rules = setting.Rules{
		MaxRetryCount: cfg.MaxRetryCount, RetryDelay: cfg.RetryDelay(), RetryMaxWait: cfg.RetryMaxWait,
		ProcessingTimeout: cfg.ProcessingTimeout(),
	}
	return o, nil
}

// edgeOf returns the options that concern connections.
func edgeOf(cfg *config.Server, log *slog.Logger) (Options, error) {
	proxies, err := cfg.Proxies()
	if err != nil {
		return Options{}, err
	}
	var certificate *tls.Config
	if cfg.TLSCertFile != "" {
		if certificate, err = TLSConfig(cfg.TLSCertFile, cfg.TLSKeyFile, log); err != nil {
			return Options{}, err
		}
	}
	return Options{
		TLS: certificate, MaxConnections: cfg.MaxConnections, MaxOfAddress: cfg.MaxOfAddress, TrustedProxies: proxies, CORSOrigins: cfg.CORSOrigins, BasePath: cfg.BasePath, Log: log,
	}, nil
}

// App is a server that is ready to start.
type App struct {
	Handler       http.Handler
	Submissions   *submit.Service
	Tasks         *task.Service
	Queue         *queue.Service
	History       *history.Service
	Answers       *idempotency.Service
	Directory     *directory.Service
	Senders       *sender.Service
	Receipts      *receipt.Service
	Received      *received.Service
	Blocks        *block.Service
	Notifications *notification.Service
	Retention     notification.Retention
	Alerts        *alert.Service
	Audit         *audit.Service
	Statistics    *statistics.Service
	Reconcile     *reconcile.Service
	Jobs          *job.Service
	Batches       *batch.Service
	Contacts      *contact.Service
	Conversations *conversation.Service
	Verifications *verification.Service
	ReplyRules    *replyrule.Service
	Erasures      *erasure.Service
	Feed          *feed.Service
	Webhooks      *webhook.Service
	Uploads       *upload.Service
	ThirdParty    *thirdparty.Service
	SQLInbox      *sqlinbox.Service
	SMPP          *smppserver.Server
	Notifier      *delivery.Notifier
	Pusher        *push.Pusher
	Servers       *servers.Service
	DB            *postgres.DB

	host      string
	metrics   *prometheus.Registry
	settings  *setting.Service
	users     *access.Service
	templates *template.Service
	inbounds  *inbound.Service
	explain   *explain.Service
	caps      *caps.Service
	quiet     *quiet.Service
	configs   *sender.Configs
	streams   *stream.Streams
	sweeper   *sweep.Sweeper
	tracer    *tracing.Tracer
	options   Options
}

// New builds an App on a migrated database. Call Close afterwards.
func New(ctx context.Context, o Options) (*App, error) {
	if o.Secrets == nil {
		o.Secrets = &secret.Box{}
	}
	if o.Roles == nil {
		o.Roles = servers.All()
	}
	db, err := postgres.OpenWith(ctx, o.DatabaseURL, o.Replicas)
	if err != nil {
		return nil, err
	}
	a := &App{DB: db, options: o, metrics: prometheus.NewRegistry(), streams: stream.New(streamsOf(o.MaxConnections))}
	if err := a.wire(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return a, nil
}

// wire creates the services of all wings, from the lowest wing to the highest. Each service gets the services that it uses.
func (a *App) wire(ctx context.Context) (err error) {
	if err := a.wirePlatform(ctx); err != nil {
		return err
	}
	a.wireDispatch()
	a.wireEventsAndAudience()
	a.wireInsight()
	if err := a.wireTransport(); err != nil {
		return err
	}
	a.sweeper, err = sweep.New(a.DB, a.options.Roles, a.options.Log, a.metrics, a.Sweeps()...)
	return err
}

// Sweeps returns the sweeps of all services, for all roles.
func (a *App) Sweeps() []sweep.Job {
	return slices.Concat(
		serverSweeps(a.Servers), a.users.Sweeps(), a.Answers.Sweeps(),
		a.Directory.Sweeps(), a.Senders.Sweeps(), a.Queue.Sweeps(), a.Submissions.Sweeps(), a.Receipts.Sweeps(), a.Received.Sweeps(), a.Blocks.Sweeps(), a.caps.Sweeps(),
		a.Jobs.Sweeps(),
		a.Feed.Sweeps(), a.Webhooks.Sweeps(),
		a.Uploads.Sweeps(), a.Contacts.Sweeps(), a.ReplyRules.Sweeps(), a.Notifications.Sweeps(), a.Retention.Sweeps(), a.Verifications.Sweeps(), a.Batches.Sweeps(), a.Erasures.Sweeps(),
		a.Audit.Sweeps(), a.Alerts.Sweeps(), a.Notifier.Sweeps(), a.Statistics.Sweeps(), a.Reconcile.Sweeps(), a.History.Sweeps(),
		a.ThirdParty.Sweeps(), a.SQLInbox.Sweeps(), a.SMPP.Sweeps(),
	)
}

func (a *App) wirePlatform(ctx context.Context) (err error) {
	o := a.options
	a.metrics.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		postgres.PoolCollector{DB: a.DB},
		buildInfo(),
	)
	if a.tracer, err = tracing.New(ctx, tracing.Options{URL: o.TraceURL, Log: o.Log}); err != nil {
		return err
	}
	a.settings = setting.NewWithRules(a.DB, o.Rules)
	a.users, err = access.New(a.DB, access.Options{Username: o.Username, Password: o.Password, Settings: a.settings, PasswordCost: o.PasswordCost, Now: o.Now})
	if err != nil {
		return err
	}
	warnOfNamesake(ctx, a.users, o)
	a.Answers = idempotency.New(a.DB, o.Secrets)
	if a.host, err = os.Hostname(); err != nil {
		return fmt.Errorf("read host name: %w", err)
	}
	a.Servers = servers.New(a.DB, servers.Options{Host: a.host, Roles: o.Roles, LateReceipts: receipt.KeptFor, Log: o.Log})
	a.Servers.Register(a.metrics)
	return nil
}

func (a *App) wireDispatch() {
	o := a.options
	a.templates = template.New(a.DB, a.settings)
	a.configs = sender.NewConfigs(a.DB, o.Secrets)
	a.Directory = directory.New(a.DB)
	a.Senders = sender.New(a.DB, a.settings, a.Directory, a.configs)
	a.Senders.Register(a.metrics)
	a.quiet = quiet.New(a.Directory, a.settings)
	a.caps = caps.New(a.DB, a.Directory, a.settings)
	admission := admit.New(a.DB, a.Directory, a.quiet, a.caps)
	texts := sensitive.NewBox(o.Secrets)
	a.Queue = queue.New(a.DB, queue.Services{
		Directory: a.Directory, Senders: a.Senders, Settings: a.settings, Admit: admission, Sensitive: texts, Tracer: a.tracer,
	}, a.metrics)
	a.explain = explain.New(a.DB, a.Directory, a.Senders, a.settings)
	a.Submissions = submit.New(a.DB, submit.Services{
		Queue: a.Queue, Admit: admission, Explain: a.explain, Templates: a.templates, Directory: a.Directory, Settings: a.settings,
		Sensitive: texts,
	})
	a.Tasks = task.New(a.DB, task.Services{
		Queue: a.Queue, Admit: admission, Explain: a.explain, Directory: a.Directory, Settings: a.settings, Quiet: a.quiet,
	}, a.metrics)
	a.Jobs = job.New(a.DB, a.Tasks, a.settings, o.Log)
	a.Blocks = block.New(a.DB, a.Tasks)
	a.Received = received.New(a.DB, a.Directory, a.settings, a.Blocks)
	a.Receipts = receipt.New(a.DB, a.Queue, a.Received, a.configs, o.Log)
	a.Receipts.Register(a.metrics)
	a.Pusher = push.New(a.DB, push.Services{
		Queue: a.Queue, Submissions: a.Submissions, Tasks: a.Tasks, Directory: a.Directory, Receipts: a.Receipts, Senders: a.Senders,
		Configs: a.configs,
	}, push.Options{Host: a.host, Outbound: o.Outbound, Log: o.Log, Metrics: a.metrics, Tracer: a.tracer})
	a.Directory.OnChanged(a.Receipts.InvalidateReceivers)
	a.Directory.OnChanged(a.Pusher.Refresh)
	a.users.OnSwitched(a.Queue.Switched)
}

func (a *App) wireEventsAndAudience() {
	o := a.options
	a.Feed = feed.New(a.DB, a.settings)
	a.Webhooks = webhook.New(a.DB, o.Secrets, a.Feed, webhook.Options{Outbound: o.Outbound, OfUsers: o.Outbound.Public(), Log: o.Log})
	a.Uploads = upload.New(a.DB)
	a.Contacts = contact.New(a.DB, a.Uploads, a.settings, a.Directory)
	a.Conversations = conversation.New(a.DB, a.Received, a.Submissions, a.Contacts)
	a.ReplyRules = replyrule.New(a.DB, replyrule.Services{
		Received: a.Received, Conversations: a.Conversations, Submissions: a.Submissions, Templates: a.templates, Contacts: a.Contacts, Blocks: a.Blocks,
		Directory: a.Directory, CheckForward: a.Webhooks.CheckForward,
		Forward: func(ctx context.Context, webhookID int64, m received.Row) (bool, error) {
			return a.Webhooks.Forward(ctx, webhookID, webhook.Message{ID: m.ID, CompanyID: m.CompanyID, At: m.CreatedAt, SubmittedBy: m.SubmittedBy})
		},
	}, o.Log, a.metrics)
	a.Notifications = notification.New(a.DB, notification.Services{
		Submissions: a.Submissions, Tasks: a.Tasks, Directory: a.Directory, Contacts: a.Contacts,
	}, o.PlatformURL, a.tracer, a.metrics)
	a.Retention = notification.NewRetention(a.DB)
	a.Verifications = verification.New(a.DB, verification.Services{
		Submissions: a.Submissions, Tasks: a.Tasks, Contacts: a.Contacts, Notifications: a.Notifications, Templates: a.templates, Directory: a.Directory,
		Settings: a.settings, Secrets: o.Secrets, Log: o.Log,
	}, a.metrics)
	a.Batches = batch.New(a.DB, batch.Services{
		Submissions: a.Submissions, Tasks: a.Tasks, Queue: a.Queue, Jobs: a.Jobs, Templates: a.templates, Contacts: a.Contacts, Uploads: a.Uploads, Directory: a.Directory, Settings: a.settings, Quiet: a.quiet,
		Notifications: a.Notifications,
	}, o.Log)
}

func (a *App) wireInsight() {
	o := a.options
	a.Audit = audit.New(a.DB, a.settings)
	a.Alerts = alert.New(a.DB, a.settings, o.Secrets, alert.Options{Host: a.host, Folders: o.Folders}, a.metrics)
	a.Notifier = delivery.NewNotifier(a.DB, a.settings, o.Secrets, a.Notifications, a.Contacts, o.Outbound)
	a.Statistics = statistics.New(a.DB, a.settings)
	a.Reconcile = reconcile.New(a.DB, reconcile.Services{Uploads: a.Uploads, Settings: a.settings})
	a.History = history.New(a.DB, a.settings, history.Options{
		Consumers: []history.Consumer{a.Senders.AddFacts, a.Statistics.AddFacts, a.Batches.AddFacts, a.Reconcile.AddFacts},
		Observers: []history.Observer{statistics.NewMetrics(a.metrics, directory.SMS).Observe},
		Dir:       o.HistoryDir, BeforeDrop: a.Retention.End, Held: a.Retention.Held,
	})
	a.History.Register(a.metrics)
}

func (a *App) wireTransport() (err error) {
	o := a.options
	a.ThirdParty = thirdparty.New(a.DB, a.Submissions, a.Tasks, a.Directory)
	a.SQLInbox = sqlinbox.New(a.DB, a.Submissions, o.Log, a.metrics)
	pace := &capacity.Pace{}
	smppOptions := o.SMPP
	smppOptions.TLS, smppOptions.TrustedProxies, smppOptions.MaxBinds = o.TLS, o.TrustedProxies, o.MaxConnections
	smppOptions.Pace, smppOptions.Log, smppOptions.Metrics = pace, o.Log, a.metrics
	a.SMPP = smppserver.New(a.DB, smppserver.Services{Access: a.users, Submissions: a.Submissions, Tasks: a.Tasks, Feed: a.Feed}, smppOptions)
	a.inbounds = inbound.New(a.DB, a.Submissions, a.Directory, a.templates)
	a.Erasures = erasure.New(a.DB, erasure.Services{
		Tasks: a.Tasks, Contacts: a.Contacts, Directory: a.Directory, Settings: a.settings, Owners: a.erasureOwners(),
	})
	a.Handler, err = httpapi.New(httpapi.Services{
		Submissions: a.Submissions, Tasks: a.Tasks, Explain: a.explain, Queue: a.Queue, Templates: a.templates, History: a.History, Alerts: a.Alerts, Audit: a.Audit, Access: a.users, Idempotency: a.Answers,
		Directory: a.Directory, Senders: a.Senders, Configs: a.configs, Pusher: a.Pusher, Settings: a.settings, Receipts: a.Receipts, Received: a.Received, Blocks: a.Blocks, Blocklists: blocklist.New(a.Blocks, a.Uploads, a.Directory),
		Inbounds:      a.inbounds,
		Phones:        mobile.New(a.DB, mobile.Services{Access: a.users, Queue: a.Queue, Senders: a.Senders, Received: a.Received, Secrets: o.Secrets}),
		Notifications: a.Notifications, Contacts: a.Contacts, Conversations: a.Conversations, Verifications: a.Verifications, ReplyRules: a.ReplyRules, Erasures: a.Erasures, Jobs: a.Jobs, Batches: a.Batches, Uploads: a.Uploads,
		Statistics: a.Statistics, Reconcile: a.Reconcile, Feed: a.Feed, Webhooks: a.Webhooks, ThirdParty: a.ThirdParty,
		Overview: statistics.NewOverview(a.DB, a.History, a.Statistics, a.Senders, a.Alerts.Firing, a.Conversations.Unread), Servers: a.Servers,
	}, httpapi.Options{
		EnableDocs: o.EnableDocs, Kannel: o.Kannel, Ready: readiness(a.DB), Streams: a.streams,
		Gate: gate.Options{
			Roles: o.Roles, BasePath: o.BasePath, TrustedProxies: o.TrustedProxies, CORSOrigins: o.CORSOrigins, TLS: o.TLS != nil, Log: o.Log,
			Pace: pace, Metrics: a.metrics, Tracer: a.tracer,
		},
	})
	return err
}

// serverSweeps returns the sweeps of package servers. Package servers cannot return its own sweeps, because package sweep imports package servers for the
// roles.
func serverSweeps(s *servers.Service) []sweep.Job {
	return []sweep.Job{
		{Name: "record-server", Interval: servers.BeatEvery, AtStart: true, Routine: true, Run: s.Beat},
		{Roles: servers.Roles{servers.Sweep}, Name: "delete-stopped-servers", Interval: 10 * time.Minute, Routine: true, Run: s.DeleteExpired},
	}
}

// warnOfNamesake logs a warning if a user in the database has the name of the configured admin. If the database does not answer, the server starts without this
// check.
func warnOfNamesake(ctx context.Context, users *access.Service, o Options) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if hasNamesake, err := users.HasNamesake(ctx); err == nil && hasNamesake {
		o.Log.Warn("a user in the database has the name of the configured admin: set another BASIC_AUTH_USERNAME, or disable the user", "user", o.Username)
	}
}

// buildInfo returns the metric with the version of the program.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lksms_build_info", Help: "The version of the server, and of Go that built it. Always 1.",
		ConstLabels: prometheus.Labels{"version": build.Read().Version, "go": runtime.Version()},
	}, func() float64 { return 1 })
}

// Close completes the writes in progress, and closes the connections to the database.
func (a *App) Close() {
	ended, end := context.WithCancel(context.Background())
	end() // Serve has already waited for the work in progress
	a.SMPP.Stop(ended)
	a.Pusher.Stop(ended)
	a.Receipts.Close()
	a.ReplyRules.Close()
	a.Submissions.Close()
	a.Queue.Close()
	a.Feed.Close()
	exporting, cancel := context.WithTimeout(context.Background(), tracesLimit)
	defer cancel()
	if err := a.tracer.Close(exporting); err != nil {
		a.options.Log.Warn("the last traces are lost", "error", err)
	}
	a.DB.Close()
}

// tracesLimit is how long a stopping server waits for the collector of traces.
const tracesLimit = 3 * time.Second

// streamsOf returns the maximum number of streams. It is lower than the maximum number of connections, so that requests can still connect.
func streamsOf(maxConnections int) int {
	if maxConnections == 0 {
		return 1000
	}
	return max(1, maxConnections/4)
}

var errNotMigrated = errors.New("a migration is missing")

func readiness(db *postgres.DB) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		migrated, err := migrate.IsDone(ctx, db)
		if err == nil && !migrated {
			err = errNotMigrated
		}
		return err
	}
}

// drainLimit is how long a stopping server waits for requests in progress.
const drainLimit = 5 * time.Second

// leaveLimit is how long a stopping server tries to remove itself from the list of servers.
const leaveLimit = time.Second

// Serve answers requests on listener, and runs the sweeps and the driven senders, until ctx ends. Then it stops accepting connections, waits for requests and
// sends in progress, and stops the sweeps.
func (a *App) Serve(ctx context.Context, listener net.Listener) error {
	if a.options.Roles.Has(servers.SMPP) {
		if err := a.SMPP.Start(); err != nil {
			return err
		}
	}
	server, bounded := newServer(a.Handler, listener, a.options)
	server.RegisterOnShutdown(func() {
		a.Pusher.StopClaiming()
		a.Queue.StopWaiting()
		a.Feed.StopWaiting()
		a.streams.Stop()
	})
	served := make(chan error, 1)
	go func() { served <- serve(server, bounded) }()
	a.sweeper.Start()
	if a.options.Roles.Has(servers.Push) {
		a.Pusher.Start()
	}

	var failure error
	select {
	case failure = <-served:
		failure = fmt.Errorf("serve: %w", failure)
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
		defer cancel()
		defer time.AfterFunc(silentGrace, bounded.closeSilent).Stop()
		var unbinding sync.WaitGroup
		unbinding.Go(func() { a.SMPP.Stop(drain) })
		defer unbinding.Wait()
		if err := server.Shutdown(drain); err != nil {
			failure = fmt.Errorf("finish requests: %w", errors.Join(err, server.Close()))
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			failure = errors.Join(failure, fmt.Errorf("serve: %w", err))
		}
		a.Pusher.Stop(drain)
	}
	failure = errors.Join(failure, a.sweeper.Stop())
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
	defer cancel()
	if err := a.Servers.Leave(leaving); err != nil { // the other servers notice the end a little later
		a.options.Log.Warn("this server could not remove itself from the list of servers", "error", err)
	}
	return failure
}

// newServer returns an HTTP server, and a listener that limits the connections as the options say.
func newServer(handler http.Handler, listener net.Listener, o Options) (*http.Server, *connections) {
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         o.TLS,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       gate.LongestAnswer + 15*time.Second, // longer than any response: at the timeout net/http cancels the request
		WriteTimeout:      time.Minute,
		MaxHeaderBytes:    4 << 10, // net/http allows 4 KiB more, and short lines need up to 40 times their size in memory
		Protocols:         new(http.Protocols),
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	server.Protocols.SetHTTP1(true) // no HTTP/2: one connection would carry hundreds of requests and their buffers, past the limits of connections
	perAddress := o.MaxOfAddress
	if perAddress == 0 {
		perAddress = max(1, o.MaxConnections/2)
	}
	bounded := newConnections(listener, o.MaxConnections, perAddress, o.TrustedProxies)
	bounded.attach(server)
	return server, bounded
}

// serve serves HTTPS if the server has a certificate, and HTTP otherwise.
func serve(server *http.Server, listener net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

// RotateSecrets encrypts the secrets of all senders, alert receivers, webhooks and phones, the waiting sensitive texts and the pending codes with the first key of
// box. It returns the number of changed secrets.
func RotateSecrets(ctx context.Context, databaseURL string, box *secret.Box) (int, error) {
	db, err := postgres.Open(ctx, databaseURL)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	changed := 0
	for _, rotate := range []func(context.Context, *postgres.DB, *secret.Box) (int, error){
		sender.RotateSecrets, alert.Rotate, webhook.RotateSecrets, mobile.RotateSecrets, queue.RotateSecrets, verification.RotateSecrets,
	} {
		n, err := rotate(ctx, db, box)
		if changed += n; err != nil {
			return changed, err
		}
	}
	return changed, nil
}
