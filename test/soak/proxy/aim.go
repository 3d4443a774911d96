package proxy

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Path is one kind of transaction, identified by the SQL statements that only this kind sends.
type Path struct {
	Name     string
	Names    []string // names of statements in db/queries; a name that ends with * is a prefix
	texts    []string // beginnings of statements without a name
	Without  []string // a transaction that has sent one of these statements does not belong to this path
	IsClient bool     // a client of the soak sends the statements, not a server
}

// Paths are the transactions of the service that the kills can hit.
var Paths = []*Path{
	{Name: "submit", Names: []string{"TaskSubmit", "DefaultContentConsume", "IdempotencyStore", "SubmissionsRepeated"}, Without: []string{"BatchHold", "SqlInboxTake"}},
	{Name: "claim", Names: []string{"TaskOffer", "TaskLease", "SenderAdmit", "SenderCharge", "RouteAdmit"}},
	{Name: "verification", Names: []string{"VerificationsStart", "VerificationResent", "VerificationCheck", "VerificationCancel"}},
	{Name: "two-step start", Names: []string{"TaskStart"}},
	{Name: "report", Names: []string{"TaskReport", "ReportsLate"}},
	{Name: "recover", Names: []string{"TaskReturn", "TaskRecover", "TaskExpire"}},
	{Name: "push", Names: []string{"TaskOutgoing", "TaskRelease", "DeliveryUnclear", "BreakerOpen", "BreakerProbe", "BreakerProbeEnd", "BreakerClose"}},
	{Name: "cancel and requeue", Names: []string{"TaskCancel", "TaskRequeue", "RequeueHold"}},
	{Name: "ranks and moves between pools", Names: []string{"TaskQueue", "TaskAge", "TaskMove", "PoolRetire", "PoolSettle"}},
	{Name: "list: check", Names: []string{"BatchRowsAdd", "BatchRowsDuplicate", "BatchChecked", "BatchReady", "BatchCreate"}},
	{Name: "list: feed", Names: []string{"BatchRowsNext", "BatchRowsFed", "BatchFed", "BatchReleased", "BatchFinish", "BatchPause", "BatchCancel"}},
	{Name: "notification", Names: []string{"NotificationCreate", "RenderingCreate", "TaskEnqueue", "NotificationAdvance", "NotificationSet"}},
	{Name: "feed of events", Names: []string{"FeedTake", "FeedAppend", "FeedNotificationsRender"}},
	{Name: "webhook", Names: []string{"WebhookRead", "WebhookSettle", "WebhookDeliveriesAdd", "WebhookRetriesPut", "WebhookRetriesDone"}},
	{Name: "alerts", Names: []string{"AlertsFound", "AlertsFire", "AlertsResolve", "AlertsEnd"}},
	{Name: "SQL inbox: enqueue", texts: []string{"SELECT lksms.enqueue", "SELECT place, task_id FROM lksms.enqueue_all"}, IsClient: true},
	{Name: "SQL inbox: submit", Names: []string{"TaskSubmit", "SqlInboxDelete", "SqlInboxPostpone"}, Without: []string{"BatchHold"}},
	{Name: "partition moved", texts: []string{"SELECT task_partition_move"}, IsClient: true},
	{Name: "partition exported, dropped, imported", Names: []string{
		"TaskPartitionCut", "TaskPartitionExported", "TaskPartitionDrop", "TaskPartitionStage", "TaskPartitionIndex", "TaskPartitionAttach",
	}, IsClient: true},
	{Name: "erasure", Names: []string{"Erasure*", "Erased*"}, Without: []string{"ErasureList"}},
}

// has reports whether a statement belongs to the path. `before` contains the names of the earlier statements of its transaction.
func (p *Path) has(statement string, before []string) bool {
	for _, text := range p.texts {
		if strings.HasPrefix(statement, text) {
			return true
		}
	}
	name := nameOf(statement)
	if name == "" || slices.ContainsFunc(p.Without, func(w string) bool { return w == name || slices.Contains(before, w) }) {
		return false
	}
	if p.Name == "SQL inbox: submit" && name == "TaskSubmit" && !slices.Contains(before, "SqlInboxTake") {
		return false
	}
	return slices.ContainsFunc(p.Names, func(n string) bool {
		beginning, isMany := strings.CutSuffix(n, "*")
		return n == name || isMany && strings.HasPrefix(name, beginning)
	})
}

// nameOf returns the name that sqlc puts before a statement. It returns "" if the statement has no name.
func nameOf(statement string) string {
	after, hasName := strings.CutPrefix(statement, "-- name: ")
	if !hasName {
		return ""
	}
	name, _, _ := strings.Cut(after, " ")
	return name
}

// Aim is a point of a path at which a kill must strike. All proxies watch for this point. The first connection that reaches it calls Strike.
type Aim struct {
	Path   *Path
	At     Point
	Strike func(l *Link) (pass bool)
	Taken  atomic.Bool
}

// trace is the state of the transaction on a connection. The proxy follows the messages itself, because it must know a statement before PostgreSQL executes it,
// and pg_stat_activity shows it only later.
type trace struct {
	mu       sync.Mutex
	pid      int               // process id of the backend
	texts    map[string]string // prepared statements, by their names in the protocol
	bound    string            // the statement of the last Bind
	before   []string          // names of the earlier statements of this transaction
	of       *Aim              // the aim to whose path the transaction belongs; nil: no aim
	tag      string            // command tag of the last completed command
	isHeld   bool              // a kill follows: ReadyForQuery is not forwarded to the server
	isServed bool              // PostgreSQL was ready before it was killed
}

// maxText is the maximum number of bytes of a statement that trace stores.
const maxText = 80

// request records a message of the server. It returns false if the message must not be forwarded.
func (l *Link) request(kind byte, message []byte) bool {
	t, current := &l.trace, l.Proxy.Aim.Load()
	switch kind {
	case 'P': // Parse
		name, rest, _ := bytes.Cut(message[5:], []byte{0})
		text, _, _ := bytes.Cut(rest, []byte{0})
		t.mu.Lock()
		if t.texts == nil {
			t.texts = map[string]string{}
		}
		t.texts[string(name)] = string(text[:min(len(text), maxText)])
		t.mu.Unlock()
	case 'B': // Bind
		_, rest, _ := bytes.Cut(message[5:], []byte{0})
		name, _, _ := bytes.Cut(rest, []byte{0})
		t.mu.Lock()
		t.bound = t.texts[string(name)]
		t.mu.Unlock()
	case 'E': // Execute
		t.mu.Lock()
		text := t.bound
		t.mu.Unlock()
		return l.sent(current, text)
	case 'Q':
		text := string(bytes.TrimRight(message[5:min(len(message), 5+maxText)], "\x00"))
		if strings.EqualFold(text, "commit") {
			return l.reached(current, AtCommit)
		}
		return l.sent(current, text)
	}
	return true
}

// sent records a statement. It returns false if the statement must not be forwarded.
func (l *Link) sent(current *Aim, text string) bool {
	t := &l.trace
	t.mu.Lock()
	isOn := current != nil && current.Path.has(text, t.before)
	if isOn {
		t.of = current
	}
	if name := nameOf(text); name != "" && len(t.before) < 100 {
		t.before = append(t.before, name)
	}
	t.mu.Unlock()
	if isOn {
		return l.reached(current, AtStatement)
	}
	return true
}

// reached calls Strike if current aims at this point and the transaction is on the path of current. It returns false if the message must not be forwarded.
func (l *Link) reached(current *Aim, at Point) bool {
	t := &l.trace
	t.mu.Lock()
	isMeant := current != nil && current.At == at && t.of == current
	t.mu.Unlock()
	if !isMeant || !current.Taken.CompareAndSwap(false, true) {
		return true
	}
	return current.Strike(l)
}

// reply records a message of PostgreSQL. It returns false if the message must not be forwarded.
func (l *Link) reply(kind byte, message []byte) bool {
	t := &l.trace
	switch kind {
	case 'K': // BackendKeyData
		t.mu.Lock()
		t.pid = int(binary.BigEndian.Uint32(message[5:]))
		t.mu.Unlock()
	case 'C': // CommandComplete
		t.mu.Lock()
		t.tag = string(bytes.TrimRight(message[5:], "\x00"))
		t.mu.Unlock()
	case 'Z': // ReadyForQuery
		isOver := message[5] == 'I'
		t.mu.Lock()
		isDone := isOver && t.tag != "ROLLBACK" && t.tag != ""
		t.mu.Unlock()
		if isDone && !l.reached(l.Proxy.Aim.Load(), AtCommitReply) {
			return false
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.isHeld {
			t.isServed = true
			return false
		}
		t.tag = ""
		if isOver {
			t.of, t.before = nil, t.before[:0]
		}
	}
	return true
}

// Hold makes the proxy keep back the end of the current command from the server, so that a later kill hits within the transaction. Hold returns the process id
// of the session.
func (l *Link) Hold() (pid int) {
	l.trace.mu.Lock()
	defer l.trace.mu.Unlock()
	l.trace.isHeld = true
	return l.trace.pid
}

// WasServed reports whether PostgreSQL had finished the command before the kill.
func (l *Link) WasServed() bool {
	l.trace.mu.Lock()
	defer l.trace.mu.Unlock()
	return l.trace.isServed
}
