package crowds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	api "lksms/gen/client"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// These constants describe the tasks of the archive. The tasks end before the first round. Then they get new ids, which belong to earlier days.
const (
	archiveDays  = 4
	archiveTasks = 50 // number of tasks per day
	archiveApp   = "sender-archive"
	archivists   = 2
)

// Archive exports, drops, imports and moves the partitions of earlier days while other faults are injected. It kills some of the commands that do this. At the
// end of a round, Restore imports all dropped partitions, so that the invariants can check every task.
type Archive struct {
	stack *stack.Stack
	dir   string // folder of the exports
	seed  uint64
	days  []time.Time

	Did    [archiveActs]atomic.Int64 // number of successful acts, by act
	Killed atomic.Int64
}

type archiveAct int

const (
	exportDay archiveAct = iota
	dropDay
	importDay
	moveDay
	makeDay
	archiveActs
)

// ArchiveActNames describe what Archive does with partitions of earlier days.
var ArchiveActNames = [archiveActs]string{"exported", "dropped", "imported", "moved", "made"}

// NewArchive creates the tasks of earlier days through the API. It records the tasks in the history of l with their new ids.
func NewArchive(ctx context.Context, s *stack.Stack, l *load.Load) (*Archive, error) {
	a := &Archive{stack: s, dir: filepath.Join(s.Dir, "exports"), seed: l.Seed}
	client := l.Clients[0]
	if res, err := client.CreateSenderWithResponse(ctx, nil, api.SenderRequest{SenderNo: archiveApp, Name: archiveApp}); err != nil || res.JSON200 == nil {
		return nil, fmt.Errorf("create sender: %w %s", err, res.Status())
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for ago := 2; ago < 2+archiveDays; ago++ {
		day := today.AddDate(0, 0, -ago)
		a.days = append(a.days, day)
		if err := a.fill(ctx, l, client, day); err != nil {
			return nil, fmt.Errorf("make tasks of %s: %w", day.Format(time.DateOnly), err)
		}
	}
	err := s.Query(ctx, func(conn *pgx.Conn) error {
		for _, statement := range []string{
			"SET allow_in_place_tablespaces = on", "CREATE TABLESPACE cold LOCATION ''", "GRANT CREATE ON TABLESPACE cold TO PUBLIC",
		} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	return a, err
}

// fill submits and reports tasks, and then replaces the day in the ids of the tasks by day.
func (a *Archive) fill(ctx context.Context, l *load.Load, client *api.ClientWithResponses, day time.Time) error {
	texts := map[string]string{} // by task id
	for i := range archiveTasks {
		text := fmt.Sprintf("archive \"%s\", %d\n", day.Format(time.DateOnly), i)
		res, err := client.SendSmsWithResponse(ctx, nil, api.SendRequest{PhoneNumber: "13700000000", Content: &text, DedupKey: &text})
		if err != nil || res.JSON200 == nil {
			return fmt.Errorf("submit: %w %s", err, res.Status())
		}
		texts[res.JSON200.Data.TaskID] = text
	}
	limit := archiveTasks
	res, err := client.ClaimTasksWithResponse(ctx, &api.ClaimTasksParams{AppID: archiveApp, Limit: &limit})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if res.JSON200 == nil || len(res.JSON200.Data) != archiveTasks {
		return fmt.Errorf("claim of %d tasks: %s %s", archiveTasks, res.Status(), res.Body)
	}
	later := func(id string) string { return "task_" + day.Format("20060102") + id[len("task_20060102"):] }
	for i, task := range res.JSON200.Data {
		if res, err := client.ReportTaskWithResponse(ctx, api.ReportRequest{TaskID: task.TaskID, AppID: archiveApp, Status: api.ReportStatus(2 + i%2)}); err != nil || res.JSON200 == nil {
			return fmt.Errorf("report: %w %s", err, res.Status())
		}
		text := texts[task.TaskID]
		task.TaskID = later(task.TaskID)
		l.History.Submitted(text, load.Answered, task.TaskID)
		l.History.RecordClaims(load.Claimed{AppID: archiveApp, Task: task})
		l.History.RecordReport(task.TaskID, load.Answered, true)
	}
	return a.stack.Query(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT task_partitions_ahead('day', $1::timestamptz, $1::timestamptz)", day.Add(time.Hour))
		for _, table := range []string{"messages", "report_logs", "dedup_keys"} {
			if err == nil {
				_, err = conn.Exec(ctx, fmt.Sprintf("UPDATE %s SET task_id = $1 || substr(task_id, 14) WHERE task_id >= $2", table),
					"task_"+day.Format("20060102"), "task_"+time.Now().UTC().Format("20060102"))
			}
		}
		return err
	})
}

// Run performs random acts until ctx ends.
func (a *Archive) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	for i := range archivists + 1 {
		rng := rand.New(rand.NewPCG(a.seed, uint64(round)<<16|uint64(1<<12+i)))
		all.Go(func() {
			for stack.Pause(ctx, time.Duration(rng.IntN(300))*time.Millisecond) {
				act, day := archiveAct(rng.IntN(int(archiveActs))), a.days[rng.IntN(len(a.days))]
				if i == archivists { // the last archivist only moves partitions
					act = moveDay
				}
				limit := 20 * time.Second
				if rng.IntN(2) == 0 {
					limit = time.Duration(rng.IntN(500)) * time.Millisecond
				}
				if a.do(load.CallContext(), act, day, limit, rng) == nil {
					a.Did[act].Add(1)
				}
			}
		})
	}
	all.Wait()
}

// do performs an act on the partition of a day, and kills the act after limit.
func (a *Archive) do(ctx context.Context, act archiveAct, day time.Time, limit time.Duration, rng *rand.Rand) error {
	first := day.Format(time.DateOnly)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch act {
	case exportDay:
		return a.command(ctx, rng, "export", first)
	case dropDay:
		return a.command(ctx, rng, "drop", first)
	case importDay:
		return a.command(ctx, rng, "import", a.export(day))
	case moveDay:
		space := []string{"cold", "pg_default"}[rng.IntN(2)]
		return a.stack.QueryAsClient(ctx, func(conn *pgx.Conn) error {
			for moved := true; moved; {
				if err := conn.QueryRow(ctx, "SELECT task_partition_move($1, $2)", day, space).Scan(&moved); err != nil {
					return err
				}
			}
			return nil
		})
	default:
		return a.stack.Query(ctx, func(conn *pgx.Conn) error {
			ahead := time.Now().AddDate(0, 0, 10+rng.IntN(40))
			_, err := conn.Exec(ctx, "SELECT task_partitions_ahead('day', $1::timestamptz, $1::timestamptz)", ahead)
			return err
		})
	}
}

// command runs a subcommand of lksms history, with the database connection of a random server. The end of ctx kills the command.
func (a *Archive) command(ctx context.Context, rng *rand.Rand, args ...string) error {
	srv := a.stack.Servers[rng.IntN(len(a.stack.Servers))]
	cmd := exec.CommandContext(ctx, srv.Binary, append([]string{"history"}, args...)...)
	cmd.Env = append(slices.Clone(srv.Env), "HISTORY_DIR="+a.dir)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		a.Killed.Add(1)
	}
	if err != nil {
		return fmt.Errorf("history %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// export returns the folder of the latest complete export of a day, or "" if no export exists.
func (a *Archive) export(day time.Time) string {
	found, _ := filepath.Glob(filepath.Join(a.dir, day.Format(time.DateOnly)+"_*", "manifest.json")) // the pattern is valid
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

// Restore imports all dropped partitions. It returns an error if an import fails.
func (a *Archive) Restore(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(a.seed, 0))
	for _, day := range a.days {
		var exists bool
		err := a.stack.Query(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM task_partitions WHERE first_day = $1 AND dropped_at IS NULL)", day).Scan(&exists)
		})
		if err == nil && !exists {
			err = a.do(ctx, importDay, day, time.Minute, rng)
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", day.Format(time.DateOnly), err)
		}
	}
	return nil
}
