package crowds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"lksms/test/soak/check"
	"lksms/test/soak/load"
	"lksms/test/soak/stack"
)

// shop is a program that submits messages by SQL, in its own transactions, through a separate proxy.
type shop struct {
	load  *load.Load
	stack *stack.Stack
	url   string
	did   [shopActs]atomic.Int64
}

type shopAct int

const (
	commitOrder shopAct = iota
	rollBackOrder
	doubtOrder
	shopActs
)

var shopActNames = [shopActs]string{"orders committed with their messages", "orders rolled back with their messages", "orders with an unknown outcome"}

const shopRole = "soak_shop"

func (s *shop) SetUp(ctx context.Context) error {
	err := s.stack.Query(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `CREATE ROLE `+shopRole+` LOGIN PASSWORD '`+stack.Password+`';
			CREATE SCHEMA shop; CREATE TABLE shop.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL, task_id text);
			GRANT USAGE ON SCHEMA shop TO `+shopRole+`; GRANT SELECT, INSERT, UPDATE ON shop.orders TO `+shopRole)
		return err
	})
	if err != nil {
		return fmt.Errorf("make a shop: %w", err)
	}
	srv := s.stack.Servers[0]
	cmd := exec.CommandContext(ctx, srv.Binary, "sql", "grant", load.Acme, shopRole)
	cmd.Env = srv.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sql grant: %w: %s", err, out)
	}
	return nil
}

func (s *shop) Run(ctx context.Context, round int) {
	var all sync.WaitGroup
	for i := range 4 {
		rng := rand.New(rand.NewPCG(s.load.Seed, uint64(round)<<16|uint64(1<<11+i)))
		all.Go(func() {
			var conn *pgx.Conn
			for stack.Pause(ctx, time.Duration(rng.IntN(400))*time.Millisecond) {
				s.order(rng, &conn)
			}
			if conn != nil {
				_ = conn.Close(load.CallContext())
			}
		})
	}
	all.Wait()
}

// order stores an order and submits its message in one transaction. It repeats an order with a dedup key until the COMMIT gets a response, at most KeyedTries
// times.
func (s *shop) order(rng *rand.Rand, conn **pgx.Conn) {
	serial := s.load.Serial.Add(1)
	text, phone := fmt.Sprintf("soak-%d-by-sql-%d", s.load.Seed, serial), fmt.Sprintf("138%08d", serial)
	var key *string
	tries := 1
	if rng.IntN(2) == 0 {
		key, tries = &text, load.KeyedTries
	}
	rollsBack, many := rng.IntN(8) == 0, 0
	if key == nil && rng.IntN(4) == 0 {
		many = 2 + rng.IntN(4)
	}
	for range tries {
		ids, o := s.try(conn, phone, text, key, many, rollsBack)
		for place := range max(many, 1) {
			one, id := text, ""
			if many > 0 {
				one = fmt.Sprint(text, "-", place)
			}
			if o == load.Answered {
				id = ids[place]
			}
			s.load.History.Submitted(one, o, id)
		}
		switch {
		case o == load.Answered:
			s.did[commitOrder].Add(1)
			return
		case o == load.Unknown:
			s.did[doubtOrder].Add(1)
		case rollsBack:
			s.did[rollBackOrder].Add(1)
			return
		}
		time.Sleep(time.Duration(10+rng.IntN(200)) * time.Millisecond)
	}
}

// try runs one transaction. If the COMMIT gets no response, the outcome is unknown. If the transaction fails before the COMMIT, nothing is stored.
func (s *shop) try(to **pgx.Conn, phone, text string, key *string, many int, rollsBack bool) (ids []string, o load.Outcome) {
	ctx, cancel := context.WithTimeout(load.CallContext(), load.CallLimit)
	defer cancel()
	if *to == nil || (*to).IsClosed() {
		conn, err := pgx.Connect(ctx, s.url)
		if err != nil {
			return nil, load.Refused
		}
		*to = conn
	}
	tx, err := (*to).Begin(ctx)
	if err != nil {
		return nil, load.Refused
	}
	defer func() { _ = tx.Rollback(ctx) }() // has no effect after a COMMIT
	if many == 0 {
		ids = make([]string, 1)
		if _, err = tx.Exec(ctx, "INSERT INTO shop.orders (text) VALUES ($1)", text); err == nil {
			err = tx.QueryRow(ctx, "SELECT lksms.enqueue($1, $2, dedup_key => $3, message_type => 'notification')", phone, text, key).Scan(&ids[0])
		}
	} else {
		var messages []map[string]any
		for place := range many {
			messages = append(messages, map[string]any{"phone_number": phone, "content": fmt.Sprint(text, "-", place), "message_type": "notification"})
			if err == nil {
				_, err = tx.Exec(ctx, "INSERT INTO shop.orders (text) VALUES ($1)", fmt.Sprint(text, "-", place))
			}
		}
		var rows pgx.Rows
		if err == nil {
			if rows, err = tx.Query(ctx, "SELECT place, task_id FROM lksms.enqueue_all($1) ORDER BY place", messages); err == nil {
				ids, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id string, err error) {
					var place int
					return id, row.Scan(&place, &id)
				})
			}
		}
	}
	if err != nil || rollsBack {
		return nil, load.Refused
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, load.Unknown
	}
	return ids, load.Answered
}

func (s *shop) Settle(ctx context.Context) error {
	return awaitNone(ctx, s.stack, "messages of the inbox", "SELECT count(*) FROM sql_inbox")
}

var shopInvariants = []check.Invariant{
	{Name: "an order is stored if and only if exactly one message of it is stored", SQL: `
		SELECT coalesce(o.text, m.content) || ' is ' || coalesce(o.n, 0) || ' orders and ' || coalesce(m.n, 0) || ' messages'
		FROM (SELECT text, count(*) AS n FROM shop.orders GROUP BY text) o
			FULL JOIN (SELECT content, count(*) AS n FROM messages WHERE content LIKE 'soak-%-by-sql-%' GROUP BY content) m ON m.content = o.text
		WHERE o.n IS NULL OR m.n IS DISTINCT FROM 1
		UNION ALL
		SELECT 'in the inbox: ' || task_id FROM sql_inbox`},
}

func (s *shop) Verdicts(ctx context.Context, conn *pgx.Conn) ([]check.Verdict, error) {
	return check.All(ctx, conn, shopInvariants)
}

func (s *shop) Print() {
	for i, name := range shopActNames {
		fmt.Printf("  %5d  %s\n", s.did[i].Load(), name)
	}
}
