package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// submitScript is a submission as an engineer would write it by hand: one statement that writes the same rows of messages and queue as the service. As in the
// service, task ids contain the day and ascend. The lane 32 * priority is the lane of new tasks. The rank is constant, because this statement does not share
// the queue fairly between companies.
const submitScript = `\set n random(0, 99999999)
WITH message AS (
    INSERT INTO messages (task_id, phone_number, recipient, content, source, submitted_by, company_id, pool_id, message_type, priority,
        segments, request_id, use_template, source_ip, user_agent, request_data)
    VALUES ('task_' || to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD_HH24MISSUS_') || left(gen_random_uuid()::text, 8),
        '138' || lpad(:n::text, 8, '0'), '+86138' || lpad(:n::text, 8, '0'), '您的验证码是123456，请勿泄露', 'bench', 'admin', 1, 1, 1, 5,
        1, gen_random_uuid()::text, false, '127.0.0.1', 'bench',
        '{"phone_number":"13800138000","content":"您的验证码是123456，请勿泄露","source":"bench"}'::jsonb)
    RETURNING *
)
INSERT INTO queue (task_id, pool_id, lane, rank, company_id, message_type, priority, segments, phone_number, recipient, content)
SELECT m.task_id, m.pool_id, 32 * m.priority, 1, m.company_id, m.message_type, m.priority, m.segments, m.phone_number, m.recipient, m.content
FROM message m;
`

var tps = regexp.MustCompile(`tps = ([0-9.]+) \(without`)

// pgbench runs a script for d and returns the transactions per second. With a rate it also returns the duration of each transaction, measured from its planned
// start to its end. pgbench counts the time to connect as part of d. If the machine is so busy that no transaction fits into d, pgbench runs again with twice
// the time.
func (s *Stack) pgbench(ctx context.Context, script string, clients int, d time.Duration, rate float64) (float64, []time.Duration, error) {
	file := filepath.Join(s.dir, "script.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return 0, nil, err
	}
	var match [][]byte
	for ; match == nil; d *= 2 {
		args := []string{"-n", "-M", "prepared", "-f", file, "-c", strconv.Itoa(clients), "-j", "2", "-T", strconv.Itoa(max(1, int(d.Seconds())))}
		if rate > 0 {
			args = append(args, "-R", strconv.FormatFloat(rate, 'f', 0, 64), "-l", "--log-prefix="+filepath.Join(s.dir, "log"))
		}
		cmd := exec.CommandContext(ctx, "pgbench", append(args, s.database)...)
		cmd.Env = os.Environ()
		out, err := cmd.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			return 0, nil, errors.New("pgbench is not installed; it comes with PostgreSQL (Debian: postgresql-contrib)")
		}
		match = tps.FindSubmatch(out)
		idle := bytes.Contains(out, []byte("actually processed: 0\n")) && d < time.Minute
		if !idle && (err != nil || match == nil) {
			return 0, nil, errors.Join(err, fmt.Errorf("pgbench reports:\n%s", out))
		}
	}
	reached, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil || rate == 0 {
		return reached, nil, err
	}
	took, err := readLogs(filepath.Join(s.dir, "log.*"))
	return reached, took, err
}

// readLogs reads and removes the logs of pgbench. Their third column is the duration of a transaction in microseconds.
func readLogs(pattern string) (took []time.Duration, err error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if fields := strings.Fields(lines.Text()); len(fields) > 2 {
				us, err := strconv.Atoi(fields[2])
				if err == nil {
					took = append(took, time.Duration(us)*time.Microsecond)
				}
			}
		}
		_ = f.Close()
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	return took, nil
}

// message is a job of River with the same payload as a message of the service.
type message struct {
	PhoneNumber string `json:"phone_number"`
	Content     string `json:"content"`
	Source      string `json:"source"`
}

// Kind implements river.JobArgs.
func (message) Kind() string { return "message" }

type sender struct {
	river.WorkerDefaults[message]
	done *atomic.Int64
}

// Work implements river.Worker. It only counts jobs.
func (s *sender) Work(context.Context, *river.Job[message]) error {
	s.done.Add(1)
	return nil
}

// River measures River: several callers insert jobs in batches of size for d, while workers complete the jobs. It returns the number of jobs per second that
// were inserted and completed.
func (s *Stack) River(ctx context.Context, callers, size int, d time.Duration) (float64, error) {
	cfg, err := pgxpool.ParseConfig(s.database)
	if err != nil {
		return 0, err
	}
	cfg.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return 0, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return 0, err
	}
	var done atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, &sender{done: &done})
	client, err := river.NewClient(driver, &river.Config{ // the settings are those of River's own benchmark
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}}, Workers: workers,
	})
	if err != nil {
		return 0, err
	}
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	defer client.Stop(ctx) //nolint:errcheck // the measurement has ended, so the error is ignored
	batch := make([]river.InsertManyParams, size)
	for i := range batch {
		batch[i].Args = message{"13800138000", "您的验证码是123456，请勿泄露", "bench"}
	}
	var inserted atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	errs := make([]error, callers)
	for i := range callers {
		all.Go(func() {
			for time.Since(began) < d {
				// The number of waiting jobs is limited, because the benchmark measures the whole life of a job, not only its insert.
				if inserted.Load()-done.Load() > int64(20*size*callers) {
					time.Sleep(time.Millisecond)
					continue
				}
				if _, errs[i] = client.InsertManyFast(ctx, batch); errs[i] != nil {
					return
				}
				inserted.Add(int64(size))
			}
		})
	}
	all.Wait()
	for done.Load() < inserted.Load() && time.Since(began) < 2*d+10*time.Second {
		time.Sleep(time.Millisecond)
	}
	rate := float64(done.Load()) / time.Since(began).Seconds()
	return rate, errors.Join(errs...)
}
