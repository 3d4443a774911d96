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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"lksms/internal/audience/batch"
	"lksms/internal/audience/contact"
	"lksms/internal/audience/erasure"
	"lksms/internal/audience/notification"
	"lksms/internal/audience/upload"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/job"
	"lksms/internal/dispatch/push"
	"lksms/internal/dispatch/queue"
	"lksms/internal/dispatch/receipt"
	"lksms/internal/dispatch/sender"
	"lksms/internal/dispatch/template"
	"lksms/internal/events/feed"
	"lksms/internal/events/webhook"
	"lksms/internal/insight/alert"
	"lksms/internal/insight/audit"
	"lksms/internal/insight/history"
	"lksms/internal/insight/overview"
	"lksms/internal/insight/reconcile"
	"lksms/internal/insight/statistics"
	"lksms/internal/insight/taskmetric"
	"lksms/internal/platform/access"
	"lksms/internal/platform/build"
	"lksms/internal/platform/config"
	"lksms/internal/platform/idempotency"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
	"lksms/internal/platform/servers"
	"lksms/internal/platform/setting"
	"lksms/internal/platform/sweep"
	"lksms/internal/platform/tracing"
	"lksms/internal/transport/httpapi"
	"lksms/internal/transport/httpapi/gate"
	"lksms/internal/transport/httpapi/stream"
	"lksms/internal/transport/inbound"
	"lksms/internal/transport/smsgate"
	"lksms/internal/transport/smsgateclient"
	"lksms/internal/transport/sqldoor"
)

// Options configures an App.
type Options struct {
	DatabaseURL string
	Replicas    postgres.Replicas
	Username    string
	Password    string
	EnableDocs  bool
	Kannel      bool          // answer Kannel's sendsms too
	Roles       servers.Roles // nil: all
	Rules       setting.Rules
	Log         *slog.Logger

	Secrets  *secret.Box // nil: secrets cannot be stored
	Outbound outbound.Policy

	PlatformURL string // value of ${platformUrl} in notifications
	HistoryDir  string // folder for exports; empty: none

	TraceURL string // the collector of traces; empty: none

	Folders []string // whose file systems are watched

	Now func() time.Time // the clock for cached credentials; nil: time.Now

	TLS            *tls.Config // nil: plain HTTP
	MaxConnections int         // 0: no limit
	MaxOfAddress   int         // connections from one address; 0: half of them
	TrustedProxies []netip.Prefix
	CORSOrigins    []string
	BasePath       string // see gate.Options
}

// FromConfig returns the options for a configuration, whose database and password the caller has resolved.
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
	o.Rules = setting.Rules{
		MaxRetryCount: cfg.MaxRetryCount, RetryDelay: cfg.RetryDelay(), RetryMaxWait: cfg.RetryMaxWait,
		ProcessingTimeout: cfg.ProcessingTimeout(),
	}
	return o, nil
}

// edgeOf returns the options of connections.
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
	Tasks         *queue.Service
	History       *history.Service
	Answers       *idempotency.Service
	Directory     *directory.Service
	Senders       *sender.Service
	Receipts      *receipt.Service
	Notifications *notification.Service
	Forgetter     notification.Forgetter
	Alerts        *alert.Service
	Audit         *audit.Service
	Statistics    *statistics.Service
	Reconcile     *reconcile.Service
	Jobs          *job.Service
	Batches       *batch.Service
	Contacts      *contact.Service
	Erasures      *erasure.Service
	Feed          *feed.Service
	Webhooks      *webhook.Service
	Uploads       *upload.Service
	SmsgateClient *smsgateclient.Service
	SQLDoor       *sqldoor.Service
	Teller        *alert.Teller
	Pusher        *push.Pusher
	Servers       *servers.Service
	DB            *postgres.DB

	streams *stream.Streams
	sweeper *sweep.Sweeper
	tracer  *tracing.Tracer
	options Options
}

// New builds an App on a migrated database. Call Close afterwards.
func New(ctx context.Context, o Options) (*App, error) {
	db, err := postgres.OpenWith(ctx, o.DatabaseURL, o.Replicas)
	if err != nil {
		return nil, err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		postgres.PoolCollector{DB: db},
		buildInfo(),
	)
	tracer, err := tracing.New(ctx, tracing.Options{URL: o.TraceURL, Log: o.Log})
	if err != nil {
		db.Close()
		return nil, err
	}
	settings := setting.NewWithRules(db, o.Rules)
	users, err := access.New(db, access.Options{Username: o.Username, Password: o.Password, Settings: settings, Now: o.Now})
	if err != nil {
		db.Close()
		return nil, err
	}
	warnOfNamesake(ctx, users, o)
	answers := idempotency.New(db)
	templates := template.New(db, settings)
	if o.Secrets == nil {
		o.Secrets = &secret.Box{}
	}
	configs := sender.NewConfigs(db, o.Secrets)
	dir := directory.New(db)
	senders := sender.New(db, settings, dir, configs)
	senders.Register(metrics)
	tasks := queue.New(db, templates, dir, senders, settings, tracer, metrics)
	host, err := os.Hostname()
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("read host name: %w", err)
	}
	if o.Roles == nil {
		o.Roles = servers.All()
	}
	others := servers.New(db, servers.Options{Host: host, Roles: o.Roles, LateReceipts: receipt.KeptFor, Log: o.Log})
	others.Register(metrics)
	alerts := alert.New(db, settings, o.Secrets, alert.Options{Host: host, Folders: o.Folders}, metrics)
	changes := audit.New(db, settings)
	uploads := upload.New(db)
	events := feed.New(db, settings)
	webhooks := webhook.New(db, o.Secrets, events, webhook.Options{Outbound: o.Outbound, OfUsers: o.Outbound.Public(), Log: o.Log})
	contacts := contact.New(db, uploads, settings, dir)
	notifications := notification.New(db, tasks, contacts, o.PlatformURL, tracer, metrics)
	teller := alert.NewTeller(db, settings, o.Secrets, notifications, contacts, o.Outbound)
	forgetter := notification.NewForgetter(db)
	figures := statistics.New(db, settings)
	erasures := erasure.New(db, tasks, settings)
	jobs := job.New(db, tasks, settings, o.Log)
	batches := batch.New(db, batch.Services{
		Tasks: tasks, Jobs: jobs, Templates: templates, Contacts: contacts, Uploads: uploads, Directory: dir, Settings: settings,
		Notifications: notifications,
	}, o.Log)
	statements := reconcile.New(db, reconcile.Services{Uploads: uploads, Settings: settings})
	counts := history.New(db, settings, history.Options{
		Consumers: []history.Consumer{senders.AddFacts, figures.AddFacts, batches.AddFacts, statements.AddFacts},
		Observers: []history.Observer{taskmetric.New(metrics, directory.SMS).Observe},
		Dir:       o.HistoryDir, Forget: forgetter.Forget, Held: forgetter.Held,
	})
	counts.Register(metrics)
	receipts := receipt.New(db, tasks, configs, o.Log)
	receipts.Register(metrics)
	pusher := push.New(db, tasks, receipts, configs, push.Options{Outbound: o.Outbound, Log: o.Log, Metrics: metrics, Tracer: tracer})
	clients := smsgateclient.New(db, tasks, dir)
	inbox := sqldoor.New(db, tasks, o.Log, metrics)
	dir.OnChanged(receipts.Changed)
	dir.OnChanged(pusher.Changed)
	users.OnSwitched(tasks.Switched)
	streams := stream.New(streamsOf(o.MaxConnections))
	handler, err := httpapi.New(httpapi.Services{
		Queue: tasks, Templates: templates, History: counts, Alerts: alerts, Audit: changes, Access: users, Idempotency: answers, Directory: dir,
		Senders: senders, Configs: configs, Pusher: pusher, Settings: settings, Receipts: receipts, Inbounds: inbound.New(db, tasks, templates),
		Phones: smsgate.New(db, smsgate.Services{Access: users, Queue: tasks, Senders: senders}), Notifications: notifications, Contacts: contacts, Erasures: erasures, Jobs: jobs, Batches: batches, Uploads: uploads,
		Statistics: figures, Reconcile: statements, Feed: events, Webhooks: webhooks, SmsgateClient: clients, Overview: overview.New(db, counts, figures, senders, alerts.Firing),
		Servers: others,
	}, httpapi.Options{
		EnableDocs: o.EnableDocs, Kannel: o.Kannel, Ready: readiness(db), Streams: streams,
		Gate: gate.Options{Roles: o.Roles, BasePath: o.BasePath, TrustedProxies: o.TrustedProxies, CORSOrigins: o.CORSOrigins, TLS: o.TLS != nil, Log: o.Log, Metrics: metrics, Tracer: tracer},
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	runJobs := sweep.Job{Name: "run-task-jobs", Interval: time.Second, Limit: 30 * time.Minute, Run: jobs.Run}
	sweeper, err := sweep.New(db, o.Log, metrics, jobsOf(o.Roles, map[servers.Role][]sweep.Job{
		servers.Sweep: {
			{Name: "recover-zombie-tasks", Interval: time.Second, Run: tasks.Recover},
			{Name: "forget-idempotency-keys", Interval: 10 * time.Minute, Run: answers.Sweep},
			{Name: "forget-sessions", Interval: 10 * time.Minute, Run: users.ForgetSessions},
			{Name: "take-messages-of-sql", Interval: 250 * time.Millisecond, Routine: true, Run: inbox.Take},
			{Name: "queue-due-tasks", Interval: time.Second, Routine: true, Run: tasks.Queue},
			{Name: "expire-tasks", Interval: time.Second, Routine: true, Run: tasks.Expire},
			{Name: "follow-switches", Interval: 5 * time.Second, Routine: true, Run: tasks.FollowSwitches},
			{Name: "move-tasks-to-their-routes", Interval: 5 * time.Second, Routine: true, Run: tasks.Move},
			{Name: "forget-retired-pools", Interval: time.Hour, Routine: true, Run: dir.ForgetPools},
			{Name: "age-tasks", Interval: 5 * time.Second, Routine: true, Run: tasks.Age},
			{Name: "close-rank-gaps", Interval: time.Second, Routine: true, Run: tasks.CloseGaps},
			{Name: "run-notifications", Interval: time.Second, Routine: true, Run: notifications.Run},
			{Name: "empty-deleted-tags", Interval: 10 * time.Second, Run: contacts.EmptyTags},
			{Name: "import-contacts", Interval: time.Second, Limit: 30 * time.Minute, Run: contacts.Import},
			{Name: "forget-contact-imports", Interval: 10 * time.Minute, Run: contacts.ForgetImports},
			{Name: "erase-people", Interval: time.Second, Limit: 30 * time.Minute, Run: erasures.Run},
			{Name: "forget-erasures", Interval: 10 * time.Minute, Run: erasures.Forget},
			{Name: "match-receipts", Interval: 2 * time.Second, Routine: true, Run: receipts.Match},
			{Name: "forget-callbacks", Interval: 10 * time.Minute, Run: receipts.Forget},
			{Name: "make-partitions", Interval: 10 * time.Minute, AtStart: true, Run: counts.MakePartitions},
			{Name: "keep-history", Interval: 20 * time.Minute, Limit: 6 * time.Hour, Run: counts.Keep},
			{Name: "forget-submissions", Interval: 10 * time.Minute, Run: tasks.Forget},
			{Name: "forget-texts", Interval: 10 * time.Minute, Run: forgetter.ForgetTexts},
			{Name: "forget-smsgate-messages", Interval: 10 * time.Minute, Run: clients.Forget},
			{Name: "forget-audit", Interval: 10 * time.Minute, Run: changes.Forget},
			{Name: "check-batches", Interval: time.Second, Limit: 30 * time.Minute, Run: batches.Check},
			{Name: "feed-batches", Interval: time.Second, Limit: 30 * time.Minute, Run: batches.Feed},
			{Name: "forget-batches", Interval: 10 * time.Minute, Run: batches.Forget},
			{Name: "compare-statements", Interval: time.Second, Limit: 30 * time.Minute, Run: statements.Run},
			{Name: "forget-reconciliations", Interval: 10 * time.Minute, Run: statements.Forget},
			runJobs,
			{Name: "forget-task-jobs", Interval: 10 * time.Minute, Run: jobs.Forget},
			{Name: "forget-uploads", Interval: 5 * time.Minute, Run: uploads.Forget},
			{Name: "sum-up-ledger", Interval: 10 * time.Minute, Limit: 30 * time.Minute, Run: senders.SumUpLedger},
			{Name: "forget-servers", Interval: 10 * time.Minute, Routine: true, Run: others.Forget},
		},
		// A server that takes jobs runs them too. After a restore, no server has servers.Sweep yet, and jobs must cancel what was sent already.
		servers.API:     {runJobs},
		servers.Console: {runJobs},
		servers.Watch: {
			{Name: "fold-facts", Interval: 2 * time.Second, Routine: true, Run: counts.Fold},
			{Name: "roll-up-statistics", Interval: time.Minute, Routine: true, Run: figures.RollUp},
			{Name: "forget-statistics", Interval: 10 * time.Minute, Run: figures.Forget},
			{Name: "forget-events", Interval: 10 * time.Minute, Run: alerts.Forget},
			{Name: "evaluate-alert-rules", Interval: 10 * time.Second, Run: alerts.Evaluate},
			{Name: "tell-alerts", Interval: 5 * time.Second, Run: teller.Tell},
		},
		servers.Webhook: {
			{Name: "sequence-feed", Interval: time.Second, Routine: true, Run: events.Sequence},
			{Name: "forget-feed", Interval: 10 * time.Minute, Run: events.Forget},
			{Name: "post-webhooks", Interval: time.Second, Routine: true, Limit: 30 * time.Minute, Run: webhooks.Deliver},
			{Name: "forget-webhooks", Interval: 10 * time.Minute, Run: webhooks.Forget},
		},
		ofEachServer: {
			{Name: "write-down-server", Interval: servers.BeatEvery, AtStart: true, Routine: true, EachServer: true, Run: others.Beat},
			{Name: "note-polls", Interval: sender.NoteEvery, Routine: true, EachServer: true, Run: tasks.NotePolls},
			{Name: "note-user-addresses", Interval: 5 * time.Second, Routine: true, EachServer: true, Run: users.NoteVisits},
			{Name: "measure-disks", Interval: time.Minute, AtStart: true, Routine: true, EachServer: true, Run: alerts.MeasureDisks},
		},
	})...)
	if err != nil {
		db.Close()
		return nil, err
	}
	return &App{
		Handler: handler, Tasks: tasks, History: counts, Answers: answers, Directory: dir, Senders: senders, Receipts: receipts, Notifications: notifications,
		Forgetter: forgetter, Alerts: alerts, Audit: changes, Statistics: figures, Reconcile: statements, Jobs: jobs, Batches: batches, Contacts: contacts, Erasures: erasures, Feed: events, Webhooks: webhooks, Uploads: uploads, SmsgateClient: clients, SQLDoor: inbox, Teller: teller, DB: db,
		Pusher: pusher, Servers: others, streams: streams, sweeper: sweeper, tracer: tracer, options: o,
	}, nil
}

// ofEachServer stands for the jobs that every server runs for itself, whatever its roles.
const ofEachServer servers.Role = ""

// jobsOf returns the jobs of a server with some roles, each once.
func jobsOf(roles servers.Roles, all map[servers.Role][]sweep.Job) []sweep.Job {
	jobs := all[ofEachServer]
	for _, role := range roles {
		for _, job := range all[role] {
			if !slices.ContainsFunc(jobs, func(other sweep.Job) bool { return other.Name == job.Name }) {
				jobs = append(jobs, job)
			}
		}
	}
	return jobs
}

// warnOfNamesake warns if a user in the database has the name of the configured admin. Without its database a server starts, and does not know.
func warnOfNamesake(ctx context.Context, users *access.Service, o Options) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if hasNamesake, err := users.HasNamesake(ctx); err == nil && hasNamesake {
		o.Log.Warn("a user in the database has the name of the configured admin: set another BASIC_AUTH_USERNAME, or disable the user", "user", o.Username)
	}
}

// buildInfo returns the metric that names the version of the program.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lksms_build_info", Help: "The version of the server, and of Go that built it. Always 1.",
		ConstLabels: prometheus.Labels{"version": build.Read().Version, "go": runtime.Version()},
	}, func() float64 { return 1 })
}

// Close completes the writes in progress, and closes the connections to the database.
func (a *App) Close() {
	ended, end := context.WithCancel(context.Background())
	end() // Serve has given it time to finish
	a.Pusher.Stop(ended)
	a.Receipts.Close()
	a.Tasks.Close()
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

// streamsOf is how many streams may hold connections, so that they leave connections to requests.
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
		migrated, err := db.Migrated(ctx)
		if err == nil && !migrated {
			err = errNotMigrated
		}
		return err
	}
}

// drainLimit is how long a stopping server waits for requests in flight.
const drainLimit = 5 * time.Second

// leaveLimit is how long a stopping server tries to tell the others.
const leaveLimit = time.Second

// Serve answers requests on listener, and runs the sweeps and the driven senders, until ctx ends. Then it stops accepting, waits for
// requests and sends in flight, and stops the sweeps.
func (a *App) Serve(ctx context.Context, listener net.Listener) error {
	server, bounded := newServer(a.Handler, listener, a.options)
	server.RegisterOnShutdown(func() {
		a.Pusher.StopClaiming()
		a.Tasks.StopWaiting()
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
	if err := a.Servers.Leave(leaving); err != nil { // the others notice it a little later
		a.options.Log.Warn("this server stops without a word to the others", "error", err)
	}
	return failure
}

// newServer returns a server of HTTP, and the connections of listener within the limits of the options.
func newServer(handler http.Handler, listener net.Listener, o Options) (*http.Server, *connections) {
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         o.TLS,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       gate.LongestAnswer + 15*time.Second, // longer than any answer: when it passes, net/http cancels the request
		WriteTimeout:      time.Minute,
		MaxHeaderBytes:    4 << 10, // net/http allows 4 KiB more, and short lines need up to 40 times their size in memory
		Protocols:         new(http.Protocols),
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	server.Protocols.SetHTTP1(true) // no HTTP/2: one connection would carry hundreds of requests and their buffers, past the limits of connections
	ofOne := o.MaxOfAddress
	if ofOne == 0 {
		ofOne = max(1, o.MaxConnections/2)
	}
	bounded := newConnections(listener, o.MaxConnections, ofOne, o.TrustedProxies)
	bounded.attach(server)
	return server, bounded
}

// serve serves TLS if the server has a certificate.
func serve(server *http.Server, listener net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

// RotateSecrets seals the secrets of all senders, receivers of alerts and webhooks with the first key of box, and returns how many it changed.
func RotateSecrets(ctx context.Context, databaseURL string, box *secret.Box) (int, error) {
	db, err := postgres.Open(ctx, databaseURL)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	senders, err := sender.NewConfigs(db, box).Rotate(ctx)
	if err != nil {
		return senders, err
	}
	receivers, err := alert.Rotate(ctx, db, box)
	if err != nil {
		return senders + receivers, err
	}
	webhooks, err := webhook.RotateSecrets(ctx, db, box)
	return senders + receivers + webhooks, err
}
