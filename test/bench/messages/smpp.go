package messages

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smpp/smsc"
	"lksms/test/bench/measure"
)

const (
	smppWindow = 100
	outgoing   = 20_000 // messages that one bind sends
)

// SMPP compares submissions over one bind with sendsms of Kannel, in turns, and measures how fast a sender sends through one bind.
func SMPP(ctx context.Context, b *measure.Bench) error {
	address, err := measure.FreeAddress()
	if err != nil {
		return err
	}
	server, err := b.Stack.Launch(ctx, "smpp", "--smpp-listen="+address, fmt.Sprintf("--smpp-window=%d", smppWindow))
	defer func() { _ = server.Stop() }()
	if err != nil {
		return err
	}
	if err := compareSubmits(ctx, b, address); err != nil {
		return err
	}
	return sendThroughCarrier(ctx, b)
}

func compareSubmits(ctx context.Context, b *measure.Bench, address string) error {
	session, err := bindTo(ctx, address)
	if err != nil {
		return err
	}
	defer session.Close()
	rival, end, err := startKannel()
	if err != nil {
		return err
	}
	defer end()
	var own, others []float64
	for range b.Rounds {
		rate, err := measure.ClosedLoop(ctx, smppWindow, b.Time, func(int) error { return submitOver(ctx, session) })
		if err != nil {
			return err
		}
		own = append(own, rate)
		if err := b.Empty(ctx); err != nil {
			return err
		}
		if rival == "" {
			continue
		}
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: measure.Connections}}
		rate, err = measure.ClosedLoop(ctx, measure.Connections, b.Time, func(int) error { return get(ctx, client, rival) })
		if err != nil {
			return err
		}
		others = append(others, rate)
	}
	if rival == "" {
		b.Add(measure.Figure{Name: "submissions over SMPP by one bind (Kannel is not installed)", Value: measure.Show(measure.Median(own), "/s")})
		return nil
	}
	b.AtLeast(1, "submissions over SMPP by one bind", measure.Median(own), measure.Median(others), "/s", "sendsms of Kannel, which writes nothing to a disk")
	return nil
}

// bindTo binds to the server as the configured admin.
func bindTo(ctx context.Context, address string) (*smpp.Session, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	session := smpp.Start(conn, smpp.Config{Window: smppWindow})
	answer, err := session.Request(ctx, &smpp.PDU{Command: smpp.BindTransmitter, Body: &smpp.Bind{SystemID: "admin", Password: measure.Password}})
	if err == nil && answer.Status != smpp.OK {
		err = fmt.Errorf("bind: %s", answer.Status)
	}
	return session, err
}

func submitOver(ctx context.Context, session *smpp.Session) error {
	answer, err := session.Request(ctx, &smpp.PDU{Command: smpp.SubmitSM, Body: &smpp.Message{
		Source: smpp.Address{Number: "10690001"}, Dest: smpp.Address{TON: 1, NPI: 1, Number: "8613800138000"}, Short: []byte("Your parcel has arrived"),
	}})
	if err == nil && answer.Status != smpp.OK {
		err = fmt.Errorf("submit_sm: %s", answer.Status)
	}
	return err
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(request)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("sendsms: %s", res.Status)
	}
	return nil
}

// startKannel starts Kannel with a simulated carrier, and returns the address of a message for its sendsms. Without Kannel, the address is empty.
func startKannel() (sendsms string, end func(), err error) {
	const fakesmsc = "/usr/lib/kannel/test/fakesmsc"
	if _, err := exec.LookPath("bearerbox"); err != nil {
		return "", func() {}, nil
	}
	if _, err := os.Stat(fakesmsc); err != nil {
		return "", func() {}, nil
	}
	ports := make([]string, 4)
	for i := range ports {
		address, err := measure.FreeAddress()
		if err != nil {
			return "", func() {}, err
		}
		_, ports[i], _ = net.SplitHostPort(address)
	}
	dir, err := os.MkdirTemp("", "lksms-kannel-")
	if err != nil {
		return "", func() {}, err
	}
	file := filepath.Join(dir, "kannel.conf")
	config := fmt.Sprintf("group = core\nadmin-port = %s\nadmin-password = x\nsmsbox-port = %s\n\ngroup = smsc\nsmsc = fake\nhost = 127.0.0.1\nport = %s\n\n"+
		"group = smsbox\nbearerbox-host = 127.0.0.1\nsendsms-port = %s\n\ngroup = sendsms-user\nusername = x\npassword = x\n\n"+
		"group = sms-service\nkeyword = default\ntext = x\nmax-messages = 0\n", ports[0], ports[1], ports[2], ports[3])
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", func() {}, err
	}
	var running []*exec.Cmd
	end = func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		}
		_ = os.RemoveAll(dir)
	}
	for _, one := range []struct {
		args []string
		port string // that is open when the program runs
	}{
		{[]string{"bearerbox", "-v", "4", file}, ports[2]},
		{[]string{fakesmsc, "-H", "127.0.0.1", "-r", ports[2], "-m", "0", "-i", "0.1", "-v", "4", "1 2 text x"}, ""},
		{[]string{"smsbox", "-v", "4", file}, ports[3]},
	} {
		cmd := exec.Command(one.args[0], one.args[1:]...)
		if err := cmd.Start(); err != nil {
			end()
			return "", func() {}, err
		}
		running = append(running, cmd)
		if err := awaitPort(one.port); err != nil {
			end()
			return "", func() {}, fmt.Errorf("%s: %w", one.args[0], err)
		}
	}
	return "http://127.0.0.1:" + ports[3] + "/cgi-bin/sendsms?username=x&password=x&to=8613800138000&from=10690001&text=Your+parcel+has+arrived", end, nil
}

func awaitPort(port string) error {
	for range 100 {
		if port == "" {
			return nil
		}
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the port is not open")
}

// sendThroughCarrier measures the rate of one bind, and the time from the submission of a message to its submit_sm.
func sendThroughCarrier(ctx context.Context, b *measure.Bench) error {
	var got atomic.Int64
	var mu sync.Mutex
	begun, took := map[string]time.Time{}, []time.Duration{}
	carrier, err := smsc.Listen("127.0.0.1:0", simulated.Options{Forgets: true, Answer: func(m simulated.Message) simulated.Answer {
		got.Add(1)
		mu.Lock()
		defer mu.Unlock()
		if at, is := begun[m.Text]; is {
			took = append(took, time.Since(at))
		}
		return simulated.Answer{}
	}})
	if err != nil {
		return err
	}
	defer func() { _ = carrier.Close() }()
	admin := b.Client(measure.Connections)
	err = admin.Call("POST", "/api/v1/admin/senders", fmt.Sprintf(
		`{"sender_no":"carrier","name":"carrier","kind":"smpp","status":"on","is_shared":true,"config":{"host":"127.0.0.1","port":%d,"system_id":"x","password":"x","window":%d}}`,
		carrier.Port(), smppWindow), nil)
	if err != nil {
		return err
	}
	for _, open := carrier.Binds(); open == 0; _, open = carrier.Binds() {
		time.Sleep(10 * time.Millisecond)
	}
	var number atomic.Int64
	_, err = measure.OpenLoop(ctx, measure.Connections, 100, b.Time, func() error {
		text := fmt.Sprintf("message %d", number.Add(1))
		mu.Lock()
		begun[text] = time.Now()
		mu.Unlock()
		return admin.Call("POST", measure.SendPath, fmt.Sprintf(`{"phone_number":"13800138000","content":%q}`, text), nil)
	})
	if err != nil {
		return err
	}
	for got.Load() < number.Load() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	mu.Lock()
	p99 := measure.Millis(measure.Quantile(took, 0.99))
	mu.Unlock()
	b.Add(measure.Figure{Name: "p99 from the submission of a message to its submit_sm", Value: measure.Show(p99, "ms"), Target: "<= 20 ms", Met: p99 <= 20})

	got.Store(0)
	if err := b.FillPending(ctx, "smpp", outgoing, measure.DefaultCompany); err != nil {
		return err
	}
	began := time.Now()
	for got.Load() < outgoing && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	rate := outgoing / time.Since(began).Seconds()
	b.Add(measure.Figure{Name: "submit_sm through one bind with a window of 100", Value: measure.Show(rate, "/s"), Target: ">= 5000 /s", Met: rate >= 5000})
	return errors.Join(ctx.Err(), b.Empty(ctx))
}
