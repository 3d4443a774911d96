// Package demo sends messages through a running server with a simulated sender, and asks a server whether it is ready.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	dice "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"

	api "lksms/gen/client"
	"lksms/internal/platform/config"
)

// Cmd shows the life of a message through the public API, with the generated client.
type Cmd struct {
	Target target `embed:""`
	Count  int    `name:"count" default:"60" help:"Number of messages to submit, 1 to 10000."`

	Account  config.Account  `embed:""`
	Database config.Database `embed:""`
}

// These constants are the examples of the documentation.
const (
	demoName            = "lksms-demo" // name of the demo's company, user, app and message source
	demoPhone           = "13800138000"
	demoPlain           = "您的快递已到，请及时领取"
	demoTemplateName    = "验证码模板"
	demoTemplateContent = "您的验证码是{code}，用户{name}"
	demoDefaultContent  = "欢迎使用我们的服务"
)

// Validate rejects a count that shows nothing or takes too long.
func (c *Cmd) Validate() error {
	if c.Count < 1 || c.Count > 10000 {
		return errors.New("--count must be between 1 and 10000")
	}
	return nil
}

func (c *Cmd) Run(ctx context.Context) error {
	if err := awaitReady(ctx, c.Target.address()); err != nil { // before the password: the first start of a server generates it
		return err
	}
	password, _, err := config.ResolvePassword(c.Account, c.Database, false)
	if err != nil {
		return err
	}
	secret := rand.Text()
	admin, err := clientFor(c.Target.address(), c.Account.Username, string(password))
	if err != nil {
		return err
	}
	own, err := clientFor(c.Target.address(), demoName, secret)
	if err != nil {
		return err
	}
	d := &demo{admin: admin, client: own, count: c.Count}
	defer d.close() //nolint:contextcheck // runs also after the end of ctx
	if err := d.prepare(ctx, secret); err != nil {
		return fmt.Errorf("%s: %w", c.Target.address(), err)
	}
	if err := d.submit(ctx); err != nil {
		return err
	}
	if err := d.send(ctx); err != nil {
		return err
	}
	if err := d.report(ctx); err != nil {
		return err
	}
	return d.notify(ctx)
}

func clientFor(address, username, password string) (*api.ClientWithResponses, error) {
	client, err := api.NewClientWithResponses(address,
		api.WithHTTPClient(&http.Client{Timeout: 30 * time.Second}),
		api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.SetBasicAuth(username, password)
			return nil
		}))
	if err != nil {
		return nil, fmt.Errorf("read --url: %w", err)
	}
	return client, nil
}

// demo is one run. It has its own company, user, senders and routes, so its senders get only its own tasks, and other senders get no task of the demo. After
// the run, the company, user, senders and routes are disabled and kept for the next run.
type demo struct {
	admin  *api.ClientWithResponses
	client *api.ClientWithResponses // client of the company's user
	count  int
	opened []string // numbers of the enabled senders

	useTemplate bool
	useDefault  bool
	mu          sync.Mutex
	waiting     map[string]bool // submitted tasks, until the demo knows that they are settled
	longest     string          // the task with the most attempts, for the timeline
	attempts    int16
}

// prepare creates or enables the company, the user and the sender. It also checks which examples can be sent without changing data of others.
func (d *demo) prepare(ctx context.Context, password string) error {
	if _, err := created(d.admin.CreateCompanyWithResponse(ctx, nil, api.CompanyRequest{CompanyNo: demoName, Name: demoName})); err != nil {
		return fmt.Errorf("create company: %w", err)
	}
	if err := d.openUser(ctx, password); err != nil {
		return fmt.Errorf("create user: %w", err)
	}
	if err := d.openSender(ctx, api.SenderRequest{SenderNo: demoName, Name: demoName}); err != nil {
		return fmt.Errorf("create sender: %w", err)
	}
	if err := d.settleLeftovers(ctx); err != nil {
		return err
	}
	var err error
	if d.useTemplate, err = d.ensureTemplate(ctx); err != nil {
		return err
	}
	d.useDefault, err = d.ensureDefault(ctx)
	return err
}

// readyWait is the time limit for a server that was just started.
const readyWait = 30 * time.Second

// awaitReady waits until the server at an address is ready.
func awaitReady(ctx context.Context, address string) error {
	client, err := api.NewClientWithResponses(address, api.WithHTTPClient(&http.Client{Timeout: readyWait}))
	if err != nil {
		return fmt.Errorf("read --url: %w", err)
	}
	late, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for isFirst := true; ; isFirst = false {
		ready, err := client.ReadyWithResponse(late, nil)
		if err == nil && ready.StatusCode() == http.StatusOK {
			return nil
		}
		if isFirst {
			fmt.Fprintf(os.Stderr, "Waiting for the server at %s.\n", address)
		}
		select {
		case <-again.C:
		case <-late.Done():
			if err != nil {
				return fmt.Errorf("no server is running at %s: start one with `make run`, or name another one with --url: %w", address, err)
			}
			return fmt.Errorf("the server at %s is not ready: %s", address, ready.Status())
		}
	}
}

// created checks the response to the creation of an object. It works like the function accepted, but a conflict is a success, because an earlier demo can have
// created the object. exists reports whether the response was a conflict.
func created[Answer interface {
	StatusCode() int
	Status() string
}](answer Answer, err error) (exists bool, _ error) {
	if err == nil && answer.StatusCode() == http.StatusConflict {
		return true, nil
	}
	_, err = accepted(answer, err)
	return false, err
}

// openUser creates the user of the company. If the user exists from an earlier demo, openUser enables the user with the new password.
func (d *demo) openUser(ctx context.Context, password string) error {
	company := demoName
	exists, err := created(d.admin.CreateUserWithResponse(ctx, api.UserRequest{
		Username: demoName, Password: &password, Role: api.RoleSubmit, CompanyNo: &company,
	}))
	if err == nil && exists {
		_, err = accepted(d.admin.UpdateUserWithResponse(ctx, demoName, api.UserPatch{Password: &password, IsDisabled: new(bool)}))
	}
	return err
}

// openSender creates a sender that serves only the demo's company. If the sender exists from an earlier demo, openSender enables the sender.
func (d *demo) openSender(ctx context.Context, s api.SenderRequest) error {
	s.IsShared = new(bool)
	answer, err := d.admin.CreateSenderWithResponse(ctx, nil, s)
	if err == nil && answer.StatusCode() == http.StatusUnprocessableEntity && s.Config != nil {
		return errNoSecrets
	}
	exists, err := created(answer, err)
	if err == nil && exists {
		_, err = accepted(d.admin.UpdateSenderWithResponse(ctx, s.SenderNo, api.SenderPatch{
			Config: s.Config, Status: new(api.SenderOn), IsShared: s.IsShared,
		}))
	}
	if err != nil {
		return err
	}
	d.opened = append(d.opened, s.SenderNo)
	_, err = created(d.admin.CreateRouteWithResponse(ctx, nil, api.RouteRequest{
		CompanyNo: demoName, MessageType: api.Notification, SenderNo: s.SenderNo,
	}))
	return err
}

// close disables the user and the senders. It ignores errors.
func (d *demo) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, no := range d.opened {
		_, _ = d.admin.UpdateSenderWithResponse(ctx, no, api.SenderPatch{Status: new(api.SenderOff)})
	}
	_, _ = d.admin.UpdateUserWithResponse(ctx, demoName, api.UserPatch{IsDisabled: new(true)})
}

// settleLeftovers settles the tasks of an interrupted demo.
func (d *demo) settleLeftovers(ctx context.Context) error {
	source := demoName
	for _, status := range []api.TaskStatus{api.TaskPending, api.TaskProcessing} {
		for {
			limit := 100
			list, err := accepted(d.client.ListTasksWithResponse(ctx, &api.ListTasksParams{Source: &source, Status: &status, Limit: &limit}))
			if err != nil {
				return fmt.Errorf("list leftovers: %w", err)
			}
			for _, task := range list.JSON200.Data.Items {
				if status == api.TaskPending {
					_, err = d.client.CancelTaskWithResponse(ctx, task.TaskID)
				} else {
					_, err = d.admin.ReportTaskWithResponse(ctx, api.ReportRequest{TaskID: task.TaskID, AppID: demoName, Status: api.ReportFailed})
				}
				if err != nil {
					return fmt.Errorf("settle leftovers: %w", err)
				}
			}
			if list.JSON200.Data.NextCursor == nil {
				break
			}
		}
	}
	return nil
}

// ensureTemplate creates the example template unless the company has an active template. It reports whether the example template applies to messages of the
// company. A template for all companies can take precedence.
func (d *demo) ensureTemplate(ctx context.Context) (bool, error) {
	limit, first := 100, "" // the active template with the smallest id; the list is newest first
	params := &api.ListTemplatesParams{Limit: &limit}
	for {
		list, err := accepted(d.admin.ListTemplatesWithResponse(ctx, params))
		if err != nil {
			return false, fmt.Errorf("list templates: %w", err)
		}
		for _, template := range list.JSON200.Data.Items {
			if template.IsActive && (len(template.Companies) == 0 || slices.Contains(template.Companies, demoName)) {
				first = template.TemplateContent
			}
		}
		if params.Cursor = list.JSON200.Data.NextCursor; params.Cursor == nil {
			break
		}
	}
	if first != "" {
		return first == demoTemplateContent, nil
	}
	_, err := accepted(d.admin.CreateTemplateWithResponse(ctx, nil, api.TemplateRequest{
		TemplateName: demoTemplateName, TemplateContent: demoTemplateContent, Companies: &api.TemplateCompanies{demoName},
	}))
	return true, err
}

// ensureDefault creates the default content of demoPhone, or resets the existing default content. It returns true unless it fails.
func (d *demo) ensureDefault(ctx context.Context) (bool, error) {
	number, company := demoPhone, demoName
	list, err := accepted(d.admin.ListDefaultContentsWithResponse(ctx, &api.ListDefaultContentsParams{CompanyNo: &company, PhoneNumber: &number}))
	if err != nil {
		return false, fmt.Errorf("list default contents: %w", err)
	}
	if items := list.JSON200.Data.Items; len(items) > 0 {
		_, err = accepted(d.admin.ResetDefaultContentWithResponse(ctx, items[0].ID))
		return true, err
	}
	_, err = accepted(d.admin.CreateDefaultContentWithResponse(ctx, nil, api.DefaultContentRequest{
		PhoneNumber: number, Content: demoDefaultContent, CompanyNo: &company,
	}))
	return true, err
}

// submit submits the three kinds of message in turn, and the default content once.
func (d *demo) submit(ctx context.Context) error {
	d.waiting = map[string]bool{}
	bar := newBar(d.count, "submitting")
	var group errgroup.Group
	group.SetLimit(8)
	for i := range d.count {
		group.Go(func() error {
			answer, err := accepted(d.client.SendSmsWithResponse(ctx, nil, d.message(i)))
			if err != nil {
				return fmt.Errorf("submit: %w", err)
			}
			d.mu.Lock()
			d.waiting[answer.JSON200.Data.TaskID] = true
			d.mu.Unlock()
			return bar.Add(1)
		})
	}
	err := group.Wait()
	finishBar(bar)
	return err
}

func (d *demo) message(i int) api.SendRequest {
	source, text, template := demoName, demoPlain, false
	if i == 0 && d.useDefault {
		return api.SendRequest{PhoneNumber: demoPhone, Source: &source}
	}
	if i%2 == 1 && d.useTemplate {
		text, template = fmt.Sprintf("code=%06d&name=张三", dice.IntN(1_000_000)), true
	}
	return api.SendRequest{
		PhoneNumber: fmt.Sprintf("138%08d", i), Content: &text, UseTemplate: &template, Source: &source,
	}
}

// send is the simulated sender: it polls, waits a moment for each message, and reports. About one message in ten fails, and one in seven asks for a retry after
// a second.
func (d *demo) send(ctx context.Context) error {
	bar := newBar(d.count, "sending   ")
	defer finishBar(bar)
	for {
		d.mu.Lock()
		open := len(d.waiting)
		d.mu.Unlock()
		if err := bar.Set(d.count - open); err != nil {
			return fmt.Errorf("draw progress: %w", err)
		}
		if open == 0 {
			return nil
		}
		claimed, err := d.claim(ctx)
		if err != nil {
			return err
		}
		if claimed == 0 {
			if err := d.refresh(ctx); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
}

func (d *demo) claim(ctx context.Context) (int, error) {
	limit := 10
	answer, err := accepted(d.admin.ClaimTasksWithResponse(ctx, &api.ClaimTasksParams{AppID: demoName, Limit: &limit}))
	if err != nil {
		return 0, fmt.Errorf("claim: %w", err)
	}
	var group errgroup.Group
	for _, task := range answer.JSON200.Data {
		group.Go(func() error { return d.deliver(ctx, task) })
	}
	return len(answer.JSON200.Data), group.Wait()
}

func (d *demo) deliver(ctx context.Context, task api.ClaimedTask) error {
	time.Sleep(time.Duration(20+dice.IntN(100)) * time.Millisecond) // simulates the time to send a message
	report := api.ReportRequest{TaskID: task.TaskID, AppID: demoName, LeaseID: &task.LeaseID, Status: api.ReportSuccess}
	retry, wait := true, int32(1)
	busy, unknown := "网络超时", "空号"
	switch thrown := dice.IntN(100); {
	case thrown < 15 && task.Attempt < 3:
		report.Status, report.ErrorMessage, report.ShouldRetry, report.RetryAfterSeconds = api.ReportFailed, &busy, &retry, &wait
	case thrown < 25:
		report.Status, report.ErrorMessage = api.ReportFailed, &unknown
	}
	_, err := accepted(d.admin.ReportTaskWithResponse(ctx, report))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if report.ShouldRetry == nil {
		delete(d.waiting, task.TaskID)
	}
	if task.Attempt > d.attempts {
		d.longest, d.attempts = task.TaskID, task.Attempt
	}
	return nil
}

// refresh removes settled tasks from waiting, because the server can settle a task without the sender.
func (d *demo) refresh(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.waiting {
		answer, err := accepted(d.client.GetTaskWithResponse(ctx, id))
		if err != nil {
			return fmt.Errorf("get task: %w", err)
		}
		if answer.JSON200.Data.Status >= api.TaskSuccess {
			delete(d.waiting, id)
		}
	}
	return nil
}

func (d *demo) report(ctx context.Context) error {
	counts, err := accepted(d.admin.TaskStatisticsWithResponse(ctx))
	if err != nil {
		return fmt.Errorf("read statistics: %w", err)
	}
	n := counts.JSON200.Data
	fmt.Printf("\nTasks of all companies\n")
	for _, row := range []struct {
		name  string
		count int64
	}{
		{"pending, new", n.PendingNewTasks},
		{"pending, retry", n.PendingRetryTasks},
		{"processing", n.ProcessingTasks},
		{"success", n.SuccessTasks},
		{"failed", n.FailedTasks},
	} {
		fmt.Printf("  %-15s %6d\n", row.name, row.count)
	}
	timeline, err := accepted(d.client.GetTaskTimelineWithResponse(ctx, d.longest))
	if err != nil {
		return fmt.Errorf("read timeline: %w", err)
	}
	fmt.Printf("\nTimeline of %s\n", d.longest)
	for _, event := range timeline.JSON200.Data {
		fmt.Printf("  %s  %-9s %s\n", event.At.Local().Format("15:04:05.000"), event.Event, describe(event))
	}
	return nil
}

func describe(e api.TimelineEvent) string {
	switch {
	case e.Attempt != nil && e.AppID != nil && e.LeaseUntil != nil:
		return fmt.Sprintf("attempt %d by %s, until %s", *e.Attempt, *e.AppID, e.LeaseUntil.Local().Format("15:04:05"))
	case e.Effect != nil && e.Message != nil:
		return fmt.Sprintf("%s: %s", *e.Effect, *e.Message)
	case e.Effect != nil:
		return string(*e.Effect)
	default:
		return ""
	}
}

// accepted converts a response other than 200 to an error.
func accepted[Answer interface {
	StatusCode() int
	Status() string
}](answer Answer, err error) (Answer, error) {
	if err == nil && answer.StatusCode() != http.StatusOK {
		err = errors.New(answer.Status())
	}
	return answer, err
}

func newBar(total int, what string) *progressbar.ProgressBar {
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionSetWidth(40), progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionSetPredictTime(false))
}

func finishBar(bar *progressbar.ProgressBar) {
	_ = bar.Exit() // the bar is only a decoration: the figures below contain the same information
	fmt.Fprintln(os.Stderr)
}
