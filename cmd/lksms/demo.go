package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"

	"lksms/gen/api"
	"lksms/internal/config"
)

// demoCmd shows the whole way of a message, as any client would go it: through the generated client and the public API.
type demoCmd struct {
	target `embed:""`
	Count  int `name:"count" default:"60" help:"How many messages to submit."`

	config.Account  `embed:""`
	config.Database `embed:""`
}

// The examples of the documents.
const (
	demoSource          = "lksms-demo"
	demoApp             = "demo_app"
	demoPhone           = "13800138000"
	demoPlain           = "您的快递已到，请及时领取"
	demoTemplateName    = "验证码模板"
	demoTemplateContent = "您的验证码是{code}，用户{name}"
	demoDefaultContent  = "欢迎使用我们的服务"
)

// Validate refuses a count that shows nothing, or that would take all day.
func (c *demoCmd) Validate() error {
	if c.Count < 1 || c.Count > 10000 {
		return errors.New("--count must be between 1 and 10000")
	}
	return nil
}

func (c *demoCmd) Run(ctx context.Context) error {
	password, _, err := config.ResolvePassword(c.Account, c.Database, false)
	if err != nil {
		return err
	}
	client, err := api.NewClientWithResponses(c.address(),
		api.WithHTTPClient(&http.Client{Timeout: 30 * time.Second}),
		api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.SetBasicAuth(c.Username, string(password))
			return nil
		}))
	if err != nil {
		return fmt.Errorf("read --url: %w", err)
	}
	d := &demo{client: client, count: c.Count}
	if err := d.prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.address(), err)
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
	return d.tell(ctx)
}

type demo struct {
	client *api.ClientWithResponses
	count  int

	useTemplate bool
	useDefault  bool
	mu          sync.Mutex
	waiting     map[string]bool // submitted and not known to be settled
	longest     string          // the task with the most attempts, whose timeline tells most
	attempts    int16
}

// prepare makes sure that the simulated sender meets no message of anybody else, and that the examples can be sent
// without touching what others stored.
func (d *demo) prepare(ctx context.Context) error {
	ready, err := d.client.ReadyWithResponse(ctx)
	if err != nil {
		return fmt.Errorf("no server answers (start one with `make run`): %w", err)
	}
	if ready.StatusCode() != http.StatusOK {
		return fmt.Errorf("the server is not ready: %s", ready.Status())
	}
	if err := d.settleLeftovers(ctx); err != nil {
		return err
	}
	counts, err := accepted(d.client.TaskStatisticsWithResponse(ctx))
	if err != nil {
		return fmt.Errorf("read the statistics: %w", err)
	}
	n := counts.JSON200.Data
	if open := n.PendingNewTasks + n.PendingRetryTasks + n.ProcessingTasks; open > 0 {
		return fmt.Errorf("%d messages are waiting in this queue; the simulated sender would take them without sending them. Use an empty one", open)
	}
	if d.useTemplate, err = d.ensureTemplate(ctx); err != nil {
		return err
	}
	d.useDefault, err = d.ensureDefault(ctx)
	return err
}

// settleLeftovers ends what a demo that was interrupted left open.
func (d *demo) settleLeftovers(ctx context.Context) error {
	source := demoSource
	for _, status := range []api.TaskStatus{api.TaskPending, api.TaskProcessing} {
		for {
			limit := 100
			list, err := accepted(d.client.ListTasksWithResponse(ctx, &api.ListTasksParams{Source: &source, Status: &status, Limit: &limit}))
			if err != nil {
				return fmt.Errorf("look for leftovers: %w", err)
			}
			for _, task := range list.JSON200.Data.Items {
				if status == api.TaskPending {
					_, err = d.client.CancelTaskWithResponse(ctx, task.TaskID)
				} else {
					_, err = d.client.ReportTaskWithResponse(ctx, api.ReportRequest{TaskID: task.TaskID, AppID: demoApp, Status: api.ReportFailed})
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

func (d *demo) ensureTemplate(ctx context.Context) (bool, error) {
	limit := 100
	list, err := accepted(d.client.ListTemplatesWithResponse(ctx, &api.ListTemplatesParams{Limit: &limit}))
	if err != nil {
		return false, fmt.Errorf("list templates: %w", err)
	}
	first := "" // by id, and the list is newest first
	for _, template := range list.JSON200.Data.Items {
		if template.IsActive {
			first = template.TemplateContent
		}
	}
	if first != "" {
		return first == demoTemplateContent, nil
	}
	_, err = accepted(d.client.CreateTemplateWithResponse(ctx, nil, api.TemplateRequest{
		TemplateName: demoTemplateName, TemplateContent: demoTemplateContent,
	}))
	return true, err
}

func (d *demo) ensureDefault(ctx context.Context) (bool, error) {
	number := demoPhone
	list, err := accepted(d.client.ListDefaultContentsWithResponse(ctx, &api.ListDefaultContentsParams{PhoneNumber: &number}))
	if err != nil {
		return false, fmt.Errorf("list default contents: %w", err)
	}
	if items := list.JSON200.Data.Items; len(items) > 0 {
		if items[0].Content != demoDefaultContent {
			return false, nil
		}
		_, err = accepted(d.client.ResetDefaultContentWithResponse(ctx, items[0].ID))
		return true, err
	}
	_, err = accepted(d.client.CreateDefaultContentWithResponse(ctx, nil, api.DefaultContentRequest{
		PhoneNumber: number, Content: demoDefaultContent,
	}))
	return true, err
}

// submit sends in the three kinds of message by turns; the default content once.
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
	source, text, template := demoSource, demoPlain, false
	if i == 0 && d.useDefault {
		return api.SendRequest{PhoneNumber: demoPhone, Source: &source}
	}
	if i%2 == 1 && d.useTemplate {
		text, template = fmt.Sprintf("code=%06d&name=张三", rand.IntN(1_000_000)), true
	}
	return api.SendRequest{
		PhoneNumber: fmt.Sprintf("138%08d", i), Content: &text, UseTemplate: &template, Source: &source,
	}
}

// send is the simulated sender: it polls, takes a moment for each message, and reports. About one in ten fails for good
// and one in seven asks for another attempt, a second later.
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
			if err := d.look(ctx); err != nil {
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
	answer, err := accepted(d.client.ClaimTasksWithResponse(ctx, &api.ClaimTasksParams{AppID: demoApp, Limit: &limit}))
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
	time.Sleep(time.Duration(20+rand.IntN(100)) * time.Millisecond) // the air
	report := api.ReportRequest{TaskID: task.TaskID, AppID: demoApp, LeaseID: &task.LeaseID, Status: api.ReportSuccess}
	retry, wait := true, int32(1)
	busy, unknown := "网络超时", "空号"
	switch dice := rand.IntN(100); {
	case dice < 15 && task.Attempt < 3:
		report.Status, report.ErrorMessage, report.ShouldRetry, report.RetryAfterSeconds = api.ReportFailed, &busy, &retry, &wait
	case dice < 25:
		report.Status, report.ErrorMessage = api.ReportFailed, &unknown
	}
	_, err := accepted(d.client.ReportTaskWithResponse(ctx, report))
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

// look asks what became of the tasks that are still open: the server may have given one up.
func (d *demo) look(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.waiting {
		answer, err := accepted(d.client.GetTaskWithResponse(ctx, id))
		if err != nil {
			return fmt.Errorf("look at task: %w", err)
		}
		if answer.JSON200.Data.Status >= api.TaskSuccess {
			delete(d.waiting, id)
		}
	}
	return nil
}

func (d *demo) report(ctx context.Context) error {
	counts, err := accepted(d.client.TaskStatisticsWithResponse(ctx))
	if err != nil {
		return fmt.Errorf("read the statistics: %w", err)
	}
	n := counts.JSON200.Data
	fmt.Printf("\nThe queue now\n")
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
		return fmt.Errorf("read a timeline: %w", err)
	}
	fmt.Printf("\nThe way of %s\n", d.longest)
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

// accepted makes one error of a call that failed and of an answer that is not a success.
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
	_ = bar.Exit() // the figures below say the same
	fmt.Fprintln(os.Stderr)
}
