// Package simulate simulates a carrier, or a program that binds to one, for people who set up a connection.
package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"lksms/internal/platform/bom"
	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/cmpp/ismg"
	"lksms/internal/platform/pdulink/simulated"
	"lksms/internal/platform/smpp"
	"lksms/internal/platform/smpp/smsc"
)

// Cmd is the command simulate.
type Cmd struct {
	SMPP smppCmd `cmd:"" name:"smpp" help:"Speak SMPP 3.4."`
	CMPP cmppCmd `cmd:"" name:"cmpp" help:"Speak CMPP 2.0 and 3.0."`
}

// carrier contains the flags of a simulated carrier.
type carrier struct {
	Account string `name:"account" help:"system_id or source_addr that a program must send. Default: any."`
	Secret  string `name:"secret" help:"password or shared_secret that a program must send. Default: any with SMPP, and secret with CMPP."`
	Script  string `name:"script" type:"existingfile" placeholder:"FILE" help:"JSON file with rules for messages. Without it, all messages are accepted and delivered after a second."`
}

// program contains the flags of a simulated program.
type program struct {
	Connect string        `name:"connect" placeholder:"HOST:PORT" help:"Be a program that binds to this address, instead of a carrier."`
	From    string        `name:"from" default:"10690001" help:"Source address of the messages."`
	To      string        `name:"to" default:"8613800138000" help:"Recipient of the messages."`
	Text    string        `name:"text" default:"test" help:"Text of the messages."`
	Count   int           `name:"count" default:"1" help:"Number of messages."`
	Wait    time.Duration `name:"wait" default:"1m" help:"Time to wait for receipts and messages after the last answer."`
}

type smppCmd struct {
	Listen  string  `name:"listen" default:"127.0.0.1:2775" help:"Address to listen on."`
	Carrier carrier `embed:""`
	Program program `embed:""`
}

type cmppCmd struct {
	Listen  string  `name:"listen" default:"127.0.0.1:7890" help:"Address to listen on."`
	Version string  `name:"protocol" enum:"2.0,3.0" default:"3.0" help:"Version with which the program connects."`
	Carrier carrier `embed:""`
	Program program `embed:""`
}

// Run simulates an SMPP carrier or program until ctx ends.
func (c *smppCmd) Run(ctx context.Context) error {
	if c.Program.Connect != "" {
		return c.Program.run(ctx, smppDialer{c.Carrier.Account, c.Carrier.Secret})
	}
	rules, err := c.Carrier.rules(smppStatus)
	if err != nil {
		return err
	}
	var server *smsc.Server
	o := rules.options(c.Carrier, os.Stdout, func(from, to, text string) error { return server.Deliver(from, to, text) })
	if server, err = smsc.Listen(c.Listen, o); err != nil {
		return err
	}
	return serve(ctx, server.Addr(), server.Close)
}

// Run simulates a CMPP carrier or program until ctx ends.
func (c *cmppCmd) Run(ctx context.Context) error {
	if c.Program.Connect != "" {
		version := cmpp.V30
		if c.Version == "2.0" {
			version = cmpp.V20
		}
		return c.Program.run(ctx, cmppDialer{c.Carrier.Account, c.Carrier.Secret, version})
	}
	rules, err := c.Carrier.rules(cmppStatus)
	if err != nil {
		return err
	}
	var server *ismg.Server
	o := rules.options(c.Carrier, os.Stdout, func(from, to, text string) error { return server.Deliver(from, to, text) })
	if server, err = ismg.Listen(c.Listen, o); err != nil {
		return err
	}
	return serve(ctx, server.Addr(), server.Close)
}

// serve waits until ctx ends.
func serve(ctx context.Context, address string, end func() error) error {
	fmt.Println("listening on", address)
	<-ctx.Done()
	return end()
}

// A rule says what the carrier does with messages.
type rule struct {
	Match    string    `json:"match"`  // regular expression for the text or the recipient; empty: all messages
	Every    int       `json:"every"`  // only each n-th message that matches; 0: all
	Status   any       `json:"status"` // name or number; nil: accepted
	DelayMS  int       `json:"delay_ms"`
	Cut      bool      `json:"cut"`    // the connection is cut without an answer
	Silent   bool      `json:"silent"` // no answer
	ID       string    `json:"id"`
	Receipts []receipt `json:"receipts"`
	Reply    string    `json:"reply"` // text that the recipient sends

	pattern *regexp.Regexp
	status  uint32
	matched int
}

type receipt struct {
	Stat    string `json:"stat"`
	Err     string `json:"err"`
	ID      string `json:"id"`
	AfterMS int    `json:"after_ms"`
	Early   bool   `json:"early"` // before the answer
}

// rules are the rules of a script, in their order. The first rule that matches a message applies.
type rules []*rule

// usual is the rule of messages that no rule of the script matches.
var usual = &rule{Receipts: []receipt{{Stat: simulated.Delivered, AfterMS: 1000}}}

// rules reads the script. statusOf returns the number of a status.
func (c carrier) rules(statusOf func(name string) (uint32, bool)) (rules, error) {
	if c.Script == "" {
		return nil, nil
	}
	script, err := os.ReadFile(c.Script)
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	var all rules
	decoder := json.NewDecoder(bytes.NewReader(bom.Skip(script)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s is no list of rules: %w", c.Script, err)
	}
	for i, r := range all {
		if r.pattern, err = regexp.Compile(r.Match); err != nil {
			return nil, fmt.Errorf("rule %d of %s: match: %w", i+1, c.Script, err)
		}
		known := true
		switch status := r.Status.(type) {
		case nil:
		case string:
			r.status, known = statusOf(status)
		case float64:
			r.status, known = uint32(status), status >= 0 && status < 1<<32
		default:
			known = false
		}
		if !known {
			return nil, fmt.Errorf("rule %d of %s: status: %v is no status", i+1, c.Script, r.Status)
		}
	}
	return all, nil
}

func smppStatus(name string) (uint32, bool) {
	status, known := smpp.ParseStatus(name)
	if !known {
		return cmppStatus(name)
	}
	return uint32(status), true
}

func cmppStatus(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name, 0, 32)
	return uint32(n), err == nil
}

// find returns the rule of a message.
func (r rules) find(m simulated.Message) *rule {
	for _, one := range r {
		if !one.pattern.MatchString(m.Text) && !one.pattern.MatchString(m.To) {
			continue
		}
		if one.matched++; one.Every == 0 || one.matched%one.Every == 0 {
			return one
		}
	}
	return usual
}

// options returns the options of a carrier that follows the rules and prints each message to out. deliver sends a reply to the program.
func (r rules) options(c carrier, out io.Writer, deliver func(from, to, text string) error) simulated.Options {
	var mu sync.Mutex // of out
	show := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintf(out, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
	}
	return simulated.Options{Account: c.Account, Secret: c.Secret, Forgets: true, Answer: func(m simulated.Message) simulated.Answer {
		one := r.find(m)
		a := simulated.Answer{Status: one.status, ID: one.ID, Delay: milliseconds(one.DelayMS), Cut: one.Cut, Silent: one.Silent}
		for _, receipt := range one.Receipts {
			a.Receipts = append(a.Receipts, simulated.Receipt{
				ID: receipt.ID, Stat: receipt.Stat, Err: receipt.Err, After: milliseconds(receipt.AfterMS), Early: receipt.Early,
			})
		}
		show("%d of %s: %s → %s %q, status %d", m.Nth, m.Account, m.From, m.To, m.Text, one.status)
		if one.Reply != "" {
			go func() {
				if err := deliver(m.To, m.From, one.Reply); err != nil {
					show("the reply of %s was not accepted: %v", m.To, err)
				}
			}()
		}
		return a
	}}
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// Validate rejects flags that contradict each other.
func (p program) Validate() error {
	if p.Count < 1 {
		return errors.New("--count must be at least 1")
	}
	return nil
}
