package crowds

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

const (
	codesCompany = "codes"
	codesSender  = "sender-codes"
	codesPurpose = "login"
	codeLength   = 10               // the longest, so that no other number in a log equals a code
	arrivalLimit = 20 * time.Second // a person gives up if no code arrives in this time
)

// codes are people who sign in with codes. Each person enters a code several times at the same time, on both servers. Some codes are sent again, or replaced,
// before. The sender does not use load.Sender, because the recorded claims of load.Sender must equal the log, which contains no codes.
type codes struct {
	load      *load.Load
	stack     *stack.Stack
	tenants   *load.Tenants
	authorize api.RequestEditorFn

	mu      sync.Mutex
	arrived map[string]string        // code by task
	tasks   map[string][]string      // tasks of each verification, from the responses
	entered map[string]*enteredCodes // by verification
	did     [codeActs]atomic.Int64
}

type codeAct int

const (
	startCode codeAct = iota
	resendCode
	replaceCode
	approveCode
	mistypeCode
	refuseCode
	doubtCode
	codeActs
)

var codeActNames = [codeActs]string{
	"codes sent", "codes sent again", "codes replaced", "codes approved", "wrong codes", "codes refused after the end of a verification", "checks of codes with an unknown outcome",
}

// enteredCodes counts the outcomes of all checks of a verification.
type enteredCodes struct {
	approved, wrong, unknown int
	isReplaced               bool // the response to the start of a newer verification arrived before the first check
	formerApproved           int  // approvals with the code of the verification that this one replaced
}

// sentCode is a verification whose code has arrived.
type sentCode struct{ id, code string }

func newCodes(l *load.Load, s *stack.Stack, t *load.Tenants) *codes {
	return &codes{
		load: l, stack: s, tenants: t, arrived: map[string]string{}, tasks: map[string][]string{}, entered: map[string]*enteredCodes{},
		authorize: func(_ context.Context, r *http.Request) error {
			r.SetBasicAuth(codesCompany, secretOf(codesCompany))
			r.Header.Set(load.Capped, "true") // until both servers know the setting per_minute
			return nil
		},
	}
}

func (c *codes) SetUp(ctx context.Context) error {
	client, no := c.load.Clients[0], codesCompany
	if err := createTenant(ctx, client, no, api.SenderRequest{SenderNo: codesSender}); err != nil {
		return err
	}
	route := api.RouteRequest{CompanyNo: no, MessageType: api.Verification, SenderNo: codesSender}
	c.tenants.AddRoute(route, time.Now())
	made, err := client.CreateRouteWithResponse(ctx, nil, route)
	if err := load.CheckCreated("route", err, made); err != nil {
		return err
	}
	set, err := client.PutSettingsCategoryWithResponse(ctx, "verification", api.PutSettingsCategoryJSONRequestBody{"per_minute": 0, "unproven_per_day": 0, "length": codeLength})
	return load.CheckCreated("settings", err, set)
}

func (c *codes) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	rng := func(n int) *rand.Rand { return rand.New(rand.NewPCG(c.load.Seed, uint64(round)<<16|uint64(1<<8+n))) }
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sender sync.WaitGroup
	sender.Go(func() { c.send(sending, rng(20)) })
	for i := range 16 {
		all.Go(func() {
			rng := rng(i)
			for stack.Pause(ctx, time.Duration(rng.IntN(300))*time.Millisecond) {
				c.signIn(rng)
			}
		})
	}
	all.Wait() // the persons wait for their last codes
	stop()
	sender.Wait()
}

// digitsOf matches the code in a text. A server that does not know the setting of the length yet creates codes of six digits.
var digitsOf = regexp.MustCompile(`\d{6,10}`)

// send claims messages, and gives their codes to the persons, until ctx ends.
func (c *codes) send(ctx context.Context, rng *rand.Rand) {
	limit, wait := load.MaxClaim, 1
	for ctx.Err() == nil {
		res, err := c.load.Any(rng).ClaimTasksNowWithResponse(load.CallContext(), api.ClaimRequest{AppID: codesSender, Limit: &limit, Wait: &wait})
		if err != nil || res.JSON200 == nil {
			stack.Pause(ctx, 50*time.Millisecond)
			continue
		}
		for _, t := range res.JSON200.Data {
			c.mu.Lock()
			c.arrived[t.TaskID] = digitsOf.FindString(t.Content)
			c.mu.Unlock()
			// A lost report is repeated after the end of the lease: the person then gets the same code twice.
			_, _ = c.load.Any(rng).ReportTaskWithResponse(load.CallContext(), api.ReportRequest{TaskID: t.TaskID, AppID: codesSender, Status: 2, LeaseID: &t.LeaseID})
		}
	}
}

// await returns the code that a task brings, or "" if it does not arrive in time.
func (c *codes) await(taskID string) string {
	for deadline := time.Now().Add(arrivalLimit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		code := c.arrived[taskID]
		c.mu.Unlock()
		if code != "" {
			return code
		}
	}
	return ""
}

// signIn lets a new person ask for a code and enter it.
func (c *codes) signIn(rng *rand.Rand) {
	number := fmt.Sprintf("134%08d", c.load.Serial.Add(1))
	former := sentCode{}
	last := c.start(rng, number)
	if last.code == "" {
		return
	}
	if rng.IntN(3) == 0 && !c.resend(rng, last) {
		return
	}
	if rng.IntN(3) == 0 {
		former = last
		if last = c.start(rng, number); last.code == "" || last.code == former.code {
			return
		}
		c.did[replaceCode].Add(1)
	}
	c.mu.Lock()
	c.entered[last.id] = &enteredCodes{}
	if former.id != "" {
		c.entered[former.id] = &enteredCodes{isReplaced: true}
	}
	c.mu.Unlock()
	everyRight := 1 + rng.IntN(8)
	var all sync.WaitGroup
	for i := range 4 + rng.IntN(8) {
		client := c.load.Clients[i%len(c.load.Clients)]
		given := last.code
		if i%everyRight != everyRight-1 {
			given = wrongCode(given)
		}
		switch n := rng.IntN(6); {
		case former.id != "" && n == 0:
			all.Go(func() { c.enter(client, former.id, former.code, false) })
		case former.id != "" && n == 1:
			all.Go(func() { c.enterOf(client, number, last.id, former.code, true) })
		case n == 2:
			all.Go(func() { c.enterOf(client, number, last.id, given, false) })
		default:
			all.Go(func() { c.enter(client, last.id, given, false) })
		}
	}
	all.Wait()
}

// wrongCode returns a code that differs from code.
func wrongCode(code string) string {
	return code[:len(code)-1] + string('0'+(code[len(code)-1]-'0'+1)%10)
}

// start starts a verification, and waits for its code. The code is "" if the outcome of the start is unknown, or if no code arrived.
func (c *codes) start(rng *rand.Rand, number string) sentCode {
	key := fmt.Sprint("code-", c.load.Serial.Add(1))
	body := api.VerificationRequest{PhoneNumber: &number, Purpose: codesPurpose, Language: new([]string{"en", "zh"}[rng.IntN(2)])}
	for range load.KeyedTries {
		res, err := c.load.Any(rng).StartVerificationWithResponse(load.CallContext(), &api.StartVerificationParams{IdempotencyKey: &key}, body, c.authorize)
		if err == nil && res.JSON200 != nil {
			c.did[startCode].Add(1)
			return sentCode{res.JSON200.Data.VerificationID, c.accepted(res.JSON200.Data)}
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
	return sentCode{}
}

// resend sends a code again. It returns false if the person cannot know whether the message was accepted, or if it does not arrive.
func (c *codes) resend(rng *rand.Rand, of sentCode) bool {
	res, err := c.load.Any(rng).ResendVerificationWithResponse(load.CallContext(), of.id, nil, api.VerificationResendRequest{}, c.authorize)
	if err != nil || res.JSON200 == nil {
		return false
	}
	c.did[resendCode].Add(1)
	code := c.accepted(res.JSON200.Data)
	if code != "" && code != of.code {
		c.load.History.Breach("the verification %s sent two codes", of.id)
	}
	return code != ""
}

// accepted records a message that a server accepted, and waits for its code.
func (c *codes) accepted(started api.VerificationStarted) string {
	c.mu.Lock()
	c.tasks[started.VerificationID] = append(c.tasks[started.VerificationID], started.TaskID)
	c.mu.Unlock()
	return c.await(started.TaskID)
}

// enter enters a code of a verification.
func (c *codes) enter(client *api.ClientWithResponses, id, code string, isFormer bool) {
	res, err := client.CheckVerificationWithResponse(load.CallContext(), id, api.VerificationCheckRequest{Code: code}, c.authorize)
	status, outcome := 0, ""
	if err == nil {
		if status = res.StatusCode(); res.JSON200 != nil {
			outcome = string(res.JSON200.Data.Status)
		}
	}
	c.record(id, load.OutcomeOf(status, err), outcome, isFormer)
}

// enterOf enters a code of a person whose newest verification has this id. isFormer: the code is that of an earlier verification.
func (c *codes) enterOf(client *api.ClientWithResponses, number, id, code string, isFormer bool) {
	body := api.VerificationCheckOfRequest{PhoneNumber: &number, Purpose: codesPurpose, Code: code}
	res, err := client.CheckNewestVerificationWithResponse(load.CallContext(), body, c.authorize)
	status, outcome := 0, ""
	if err == nil {
		if status = res.StatusCode(); res.JSON200 != nil {
			id, outcome = res.JSON200.Data.VerificationID, string(res.JSON200.Data.Status)
		}
	}
	c.record(id, load.OutcomeOf(status, err), outcome, isFormer)
}

// record counts the outcome of a check.
func (c *codes) record(id string, o load.Outcome, status string, isFormer bool) {
	c.load.History.Calls[o].Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entered[id]
	switch {
	case e == nil:
		c.load.History.Breach("a code was checked with the verification %s of another person", id)
	case o == load.Unknown:
		e.unknown++
		c.did[doubtCode].Add(1)
	case o == load.Refused:
		c.did[refuseCode].Add(1)
	case status == string(api.VerificationApproved):
		e.approved++
		c.did[approveCode].Add(1)
		if isFormer {
			e.formerApproved++
		}
	default:
		e.wrong++
		c.did[mistypeCode].Add(1)
	}
}

// Settle sends all remaining messages.
func (c *codes) Settle(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	all.Go(func() { c.send(sending, rand.New(rand.NewPCG(c.load.Seed, 1<<8))) })
	return awaitNone(ctx, c.stack, "tasks of "+codesCompany, "SELECT count(*) FROM queue q JOIN companies c ON c.id = q.company_id WHERE c.company_no = '"+codesCompany+"'")
}

// codeInvariants must hold when no client runs. The table entered has one row for each verification whose code was entered, with the numbers of responses by
// outcome. The table sent_codes contains the accepted messages of verifications. Five checks is the default of the setting verification.max_checks.
var codeInvariants = []check.Invariant{
	{Name: "a verification is approved at most once, and no answered approval is lost", SQL: `
		SELECT verification_id || ' is ' || coalesce(v.status, 'missing') || ', ' || e.approved || ' approvals were answered, ' || e.unknown || ' checks were not'
		FROM entered e LEFT JOIN verifications v USING (verification_id)
		WHERE e.approved > 1 OR e.approved = 1 AND v.status IS DISTINCT FROM 'approved' OR v.status = 'approved' AND e.approved + e.unknown = 0`},
	{Name: "a verification counts each answered check, and at most five", SQL: `
		SELECT verification_id || ' counts ' || coalesce(v.checks, -1) || ' checks, ' || e.approved + e.wrong || ' were answered, ' || e.unknown || ' were not'
		FROM entered e LEFT JOIN verifications v USING (verification_id)
		WHERE v.verification_id IS NULL OR v.checks > 5 OR e.approved + e.wrong > v.checks
			OR v.checks > e.approved + e.wrong + e.unknown + (v.status = 'exhausted')::int -- the check that exhausts a verification is refused`},
	{Name: "only the last valid code of a person is approved", SQL: `
		SELECT verification_id || ' is ' || coalesce(v.status, 'missing') || ', ' || e.former_approved || ' approvals with the code before'
		FROM entered e LEFT JOIN verifications v USING (verification_id)
		WHERE e.is_replaced AND (e.approved > 0 OR v.status IS DISTINCT FROM 'cancelled') OR e.former_approved > 0`},
	{Name: "each message with a code belongs to one verification, and each accepted one exists", SQL: `
		SELECT m.task_id || ' belongs to ' || count(v.verification_id) || ' verifications'
		FROM messages m JOIN companies c ON c.id = m.company_id LEFT JOIN verifications v ON m.task_id = ANY (v.task_ids)
		WHERE c.company_no = '` + codesCompany + `'
		GROUP BY m.task_id HAVING count(v.verification_id) <> 1
		UNION ALL
		SELECT s.task_id || ' of ' || s.verification_id FROM sent_codes s
			LEFT JOIN verifications v ON v.verification_id = s.verification_id AND s.task_id = ANY (v.task_ids)
			LEFT JOIN messages m ON m.task_id = s.task_id
		WHERE v.verification_id IS NULL OR m.task_id IS NULL
		UNION ALL
		SELECT v.verification_id || ' has lost ' || coalesce(t.task_id, 'its message') FROM verifications v
			LEFT JOIN LATERAL unnest(v.task_ids) AS t (task_id) ON true
			LEFT JOIN messages m USING (task_id)
		WHERE m.task_id IS NULL`},
}

func (c *codes) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	_, err := conn.Exec(ctx, `
		CREATE TEMP TABLE entered (verification_id text COLLATE "C", approved int, wrong int, unknown int, is_replaced boolean, former_approved int);
		CREATE TEMP TABLE sent_codes (verification_id text COLLATE "C", task_id text COLLATE "C")`)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	var entered, sent [][]any
	for id, e := range c.entered {
		entered = append(entered, []any{id, e.approved, e.wrong, e.unknown, e.isReplaced, e.formerApproved})
	}
	for id, tasks := range c.tasks {
		for _, task := range tasks {
			sent = append(sent, []any{id, task})
		}
	}
	c.mu.Unlock()
	columns := []string{"verification_id", "approved", "wrong", "unknown", "is_replaced", "former_approved"}
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"entered"}, columns, pgx.CopyFromRows(entered)); err != nil {
		return nil, err
	}
	if _, err := conn.CopyFrom(ctx, pgx.Identifier{"sent_codes"}, []string{"verification_id", "task_id"}, pgx.CopyFromRows(sent)); err != nil {
		return nil, err
	}
	all, err := check.All(ctx, conn, codeInvariants)
	if err != nil {
		return nil, err
	}
	inLogs, err := c.inLogs()
	return append(all, inLogs), err
}

// inLogs searches the logs of the servers for codes.
func (c *codes) inLogs() (check.Verdict, error) {
	v := check.Verdict{Name: "no log of a server contains a code"}
	c.mu.Lock()
	all := map[string]bool{}
	for _, code := range c.arrived {
		all[code] = len(code) == codeLength
	}
	c.mu.Unlock()
	for _, server := range c.stack.Servers {
		log, err := os.Open(server.LogPath)
		if err != nil {
			return v, err
		}
		err = findCodes(log, all, func(line string) { v.Add(server.Name + ": " + line) })
		if closed := log.Close(); err != nil || closed != nil {
			return v, errors.Join(err, closed)
		}
	}
	return v, nil
}

var numbersOf = regexp.MustCompile(`\d+`)

// findCodes calls found with each line of a log that contains one of the codes.
func findCodes(log io.Reader, codes map[string]bool, found func(line string)) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if slices.ContainsFunc(numbersOf.FindAllString(lines.Text(), -1), func(n string) bool { return codes[n] }) {
			found(lines.Text())
		}
	}
	return lines.Err()
}

func (c *codes) Print() {
	for i, name := range codeActNames {
		fmt.Printf("  %5d  %s\n", c.did[i].Load(), name)
	}
}
