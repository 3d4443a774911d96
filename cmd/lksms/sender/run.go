// Package sender contains the command that acts as a sender: it claims, runs a script for each task, and reports.
package sender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lksms/client"
	"lksms/cmd/lksms/remote"
	"lksms/internal/platform/config"
)

// Cmd is the command `lksms sender`.
type Cmd struct {
	Run senderRunCmd `cmd:"" help:"Send messages with a script: claim, run it for each message, and report by its exit status."`
}

type senderRunCmd struct {
	Exec string   `required:"" placeholder:"./send.sh" help:"Program that sends one message. It runs without a shell."`
	Args []string `arg:"" optional:"" help:"Arguments of the program, after --."`
	remote.AppFlag
	Parallel int           `default:"1" help:"Messages at a time, 1 to 100."`
	RunLimit time.Duration `name:"run-limit" default:"1m" help:"Time limit of one run. Afterwards the program is killed. The limit is shorter if the lease ends sooner."`
	Wait     int           `default:"5" help:"Seconds that one claim waits for messages, 0 to 30. A stop can take as long."`
	Server   string        `placeholder:"URL" help:"URL of the server, as for all commands."`
	Profile  string        `placeholder:"NAME" completion:"profile" help:"Profile with server and credentials, as for all commands."`
	LogFlags config.Log    `embed:""`
}

// Help returns the text that is shown below the flags.
func (senderRunCmd) Help() string {
	return "The program gets the message in LKSMS_PHONE_NUMBER and LKSMS_CONTENT, and as JSON on standard input. " +
		"Its exit status is the report: 0 the message was sent, 75 try again later, anything else it failed. " +
		"After 126 or 127 (a program is missing) the message is retried and the command ends. The first message runs alone, so that this costs only one message an attempt. " +
		"The last line of the output is the remark of the report. " +
		"A killed program is not reported, because its message was perhaps sent. When the lease ends, the server applies " +
		"on_unclear of the sender. After SIGTERM the command finishes running messages and claims no more. A second SIGTERM kills the program."
}

// Validate checks the flags. kong calls it after it has read them.
func (c *senderRunCmd) Validate() error {
	switch {
	case c.Parallel < 1 || c.Parallel > 100:
		return errors.New("--parallel must be between 1 and 100")
	case c.Wait < 0 || c.Wait > 30:
		return errors.New("--wait must be between 0 and 30")
	case c.RunLimit <= 0:
		return errors.New("--run-limit must be positive")
	}
	return nil
}

func (c *senderRunCmd) Run(ctx context.Context, env config.Remote) error {
	path, err := findProgram(c.Exec)
	if err != nil {
		return remote.Usage("--exec: %w", err)
	}
	log := c.LogFlags.Logger()
	target := remote.Remote{Server: c.Server, Profile: c.Profile, Output: "table"}
	caller, err := target.Caller(env, client.WithTimeout(10*time.Second), client.WithRetryNotice(func(err error, wait time.Duration) {
		log.Warn("the server does not answer as it should", "error", err, "again_in", wait)
	}))
	if err != nil {
		return err
	}
	// Disable the retries of the client: the runner itself repeats calls, and stops repeating when the command stops.
	plain, err := target.Caller(env, client.WithTimeout(10*time.Second), client.WithRetries(0))
	if err != nil {
		return err
	}
	starting, started := context.WithTimeout(ctx, remote.PlainLimit)
	app, err := c.Find(starting, caller.Client)
	started()
	if err != nil {
		return remote.InTime(ctx, err)
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	r := &scriptRunner{
		client: plain.Client, app: app, script: script{path, c.Args}, wait: c.Wait, limit: c.RunLimit, log: log,
		slots: make(chan struct{}, c.Parallel), life: life,
	}
	defer onSecondSignal(func() {
		log.Warn("a second signal: the programs are killed")
		kill()
	})()
	log.Info("sending", "sender", app, "server", caller.Address, "program", path, "parallel", c.Parallel)
	err = r.run(ctx)
	log.Info("stopped", "sent", r.sent.Load(), "failed", r.failed.Load(), "to_be_retried", r.retried.Load(), "killed", r.killed.Load(),
		"unreported", r.unreported.Load())
	return err
}

// onSecondSignal calls f at the second signal. The first signal ends the context of the command. Signals within a second of the first do not count, because a
// terminal and programs like timeout send a signal both to a process and to its group.
func onSecondSignal(f func()) (stop func()) {
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var owner sync.WaitGroup
	owner.Go(func() {
		var first time.Time
		for {
			select {
			case <-done:
				return
			case <-signals:
			}
			if first.IsZero() {
				first = time.Now()
			} else if time.Since(first) > time.Second {
				f()
				return
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		owner.Wait()
	}
}

// scriptRunner claims messages for a script. It claims only as many as it can run now, so that each leased message runs immediately.
type scriptRunner struct {
	client *client.Client
	app    string
	script script
	wait   int // maximum wait for tasks in seconds
	limit  time.Duration
	log    *slog.Logger
	slots  chan struct{}   // a slot for each message that runs
	life   context.Context //nolint:containedctx // context of the programs and reports, which outlive the context of the command

	sent, failed, retried, killed, unreported atomic.Int64
	broken                                    atomic.Pointer[error] // set when the script does not work
	worked                                    sync.Once             // the first run that shows that the script works calls Do
}

// run claims until ctx ends or a permanent error occurs. Then it waits for the messages that run.
func (r *scriptRunner) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() {
		stop() // called before the wait, because the end of ctx limits the reports
		running.Wait()
	}()
	// The first message runs alone. So a script that does not work costs only one message an attempt.
	for range cap(r.slots) - 1 {
		r.slots <- struct{}{}
	}
	hasClaimed := false
	for failures := 0; ; {
		free := r.take(ctx)
		if free == 0 {
			break
		}
		asked := time.Now()
		// The end of ctx does not cancel the claim. If the response were lost, the claimed messages would wait until their leases end.
		tasks, err := r.client.Claim(r.life, client.Claim{AppID: r.app, Limit: &free, Wait: &r.wait})
		if len(tasks) > free {
			r.log.Error("the server returned more tasks than requested: the rest is not sent", "asked", free, "given", len(tasks))
			tasks = tasks[:free]
		}
		for range free - len(tasks) {
			<-r.slots
		}
		for _, task := range tasks {
			running.Go(func() {
				defer func() { <-r.slots }()
				if trouble := r.send(ctx, task); trouble != nil {
					r.broken.CompareAndSwap(nil, &trouble)
					stop()
				}
			})
		}
		switch {
		case r.life.Err() != nil: // the runner was killed while the claim waited
		case err == nil:
			failures, hasClaimed = 0, true
			if len(tasks) == 0 && time.Since(asked) < time.Second { // --wait is 0, or the server stops
				sleep(ctx, time.Second)
			}
		case isFinal(err) || !hasClaimed && !isTemporary(err):
			return err
		default:
			r.log.Warn("claim", "error", err)
			sleep(ctx, pause(err, failures, 30*time.Second))
			failures++
		}
	}
	running.Wait()
	if broken := r.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// isFinal reports whether LKSMS itself rejected a call permanently. Errors of a proxy, such as an HTML page, are temporary.
func isFinal(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Reason != "" && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests
}

// pause returns the time before the next attempt. The time begins at a second and doubles after each failure, up to longest. A longer Retry-After of the
// server replaces this time, up to a minute.
func pause(err error, failures int, longest time.Duration) time.Duration {
	d := min(time.Second<<min(failures, 5), longest)
	if answer, ok := errors.AsType[*client.Error](err); ok {
		d = max(d, min(answer.RetryAfter, time.Minute))
	}
	return d
}

// isTemporary reports whether the first claim, which failed, can succeed later without a change of the configuration. If the response is not from LKSMS, the
// URL is probably wrong.
func isTemporary(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return client.IsTemporary(err) || ok && refused.Status >= http.StatusInternalServerError
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// take waits for a free slot and occupies all free slots. It returns their number. If ctx has ended, it returns 0.
func (r *scriptRunner) take(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case r.slots <- struct{}{}:
	}
	if ctx.Err() != nil { // if both cases are ready, select chooses at random
		<-r.slots
		return 0
	}
	for n := 1; ; n++ {
		select {
		case r.slots <- struct{}{}:
		default:
			return n
		}
	}
}

// send runs the script for one message, and reports the result. It returns an error if the script does not work. ctx is the context of the claims.
func (r *scriptRunner) send(ctx context.Context, task client.ClaimedTask) error {
	lease := task.LeaseUntil.Sub(r.client.Now())
	limit := min(r.limit, lease-min(10*time.Second, lease/10)) // the report must arrive before the end of the lease, which is never after expires_at
	life, cancel := context.WithTimeout(r.life, limit)
	defer cancel()
	began := time.Now()
	var o outcome
	if r.broken.Load() == nil {
		o = r.script.run(life, task)
	} else {
		o = outcome{mayRetry: true, remark: "the script was not started: it does not work"}
	}
	took := time.Since(began).Milliseconds()
	if o.trouble == nil && r.broken.Load() == nil {
		r.worked.Do(r.openAllSlots)
	}
	if o.isUnclear {
		// The message was possibly sent, so the outcome is not reported. When the lease ends, the server applies on_unclear of the sender.
		r.killed.Add(1)
		r.log.Error("killed, and not reported: the lease runs out", "task", task.TaskID, "attempt", task.Attempt, "why", o.remark,
			"lease_until", task.LeaseUntil, "ms", took)
		return nil
	}
	report := client.Report{TaskID: task.TaskID, AppID: r.app, LeaseID: &task.LeaseID, Status: client.ReportSuccess}
	if o.remark != "" {
		report.ErrorMessage = &o.remark
	}
	count := &r.sent
	if !o.isSent {
		report.Status, report.ShouldRetry = client.ReportFailed, &o.mayRetry
		count = &r.failed
		if o.mayRetry {
			count = &r.retried
		}
	}
	count.Add(1)
	if o.trouble != nil {
		r.broken.CompareAndSwap(nil, &o.trouble) // stored before the report, which can take a long time
	}
	if err := r.report(ctx, report, task.LeaseUntil); err != nil {
		r.unreported.Add(1)
		r.log.Error("the report is lost: the message may go out again", "task", task.TaskID, "sent", o.isSent, "error", err)
	} else {
		r.log.Info("reported", "task", task.TaskID, "attempt", task.Attempt, "sent", o.isSent, "retry", o.mayRetry, "ms", took)
	}
	return o.trouble
}

// openAllSlots makes all slots available.
func (r *scriptRunner) openAllSlots() {
	for range cap(r.slots) - 1 {
		<-r.slots
	}
}

const (
	// lastTry is the minimum time for the attempts of a report, even after a second signal or after the end of the lease.
	lastTry = 5 * time.Second
	// lateReport is the time after the end of a lease for the attempts to report a success. During this time, the slot of the task sends no other message.
	lateReport = time.Hour
)

// report repeats a report until LKSMS answers it.
//
// report gives up a failure at the end of the lease, because a later failure has no effect. A later success still settles the task if no other sender has
// claimed it. So report gives up a success an hour after the end of the lease. If the command stops (ctx has ended), it gives up a success at the end of
// the lease.
//
// If the server rejects the credentials, report repeats until the end of the lease. A key can be replaced and a user can be enabled again. Without the
// report of a success, the message would be sent twice.
func (r *scriptRunner) report(ctx context.Context, report client.Report, end time.Time) error {
	life, cancel := context.WithCancelCause(context.WithoutCancel(r.life))
	defer cancel(nil)
	bound := func(end time.Time, cause error) *time.Timer {
		return time.AfterFunc(max(end.Sub(r.client.Now()), lastTry), func() { cancel(cause) })
	}
	leaseEnded := errors.New("given up when its lease had ended")
	if report.Status == client.ReportSuccess {
		defer bound(end.Add(lateReport), fmt.Errorf("given up %s after the end of its lease", lateReport)).Stop()
		defer context.AfterFunc(ctx, func() { bound(end, leaseEnded) })()
	} else {
		defer bound(end, leaseEnded).Stop()
	}
	defer context.AfterFunc(r.life, func() {
		time.AfterFunc(lastTry, func() { cancel(errors.New("given up after a second signal")) })
	})()
	var last error
	for failures := 0; ; failures++ {
		err := r.client.Report(life, report)
		switch {
		case err == nil || isFinal(err) && (!isDenied(err) || !r.client.Now().Before(end)):
			return err
		case life.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(life), cmp.Or(last, err)) // err is only the cancellation, so show the last error of the server
		}
		last = err
		r.log.Warn("report", "task", report.TaskID, "error", err)
		sleep(life, pause(err, failures, 15*time.Second))
		if life.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(life), err)
		}
	}
}

// isDenied reports whether the server rejected the credentials.
func isDenied(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden)
}
