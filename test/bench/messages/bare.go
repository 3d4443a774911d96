package messages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"lksms/test/bench/measure"
)

// ServeBare serves a handler that reads a message and returns the same response as the service, but does not store the message.
func ServeBare(address string) error {
	const answer = `{"code":200,"data":{"final_content":"您的验证码是123456，请勿泄露","status":0,"task_id":"task_20261121_01KAR0Z7YQX6V0T0Q4S3M2N1P5"},"message":"success"}`
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
}

// ProcessorShare compares the processor time per message of the server with that of the bare handler, under the same load.
func ProcessorShare(ctx context.Context, b *measure.Bench) error {
	var ours, bares []float64
	for range b.Rounds {
		if err := b.Empty(ctx); err != nil {
			return err
		}
		took, err := processorTime(ctx, b, b.Server.Process.Pid, b.Client(measure.Connections))
		if err != nil {
			return err
		}
		ours = append(ours, took)
		if took, err = processorTimeOfBare(ctx, b); err != nil {
			return err
		}
		bares = append(bares, took)
	}
	b.AtMost(2.5, "processor time of the server for a single submit", measure.Median(ours), measure.Median(bares), "µs", "a net/http handler that does nothing")
	return b.Empty(ctx)
}

func processorTimeOfBare(ctx context.Context, b *measure.Bench) (float64, error) {
	address, err := measure.FreeAddress()
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	bare := exec.CommandContext(ctx, self, "--bare", address)
	bare.Stderr = os.Stderr
	bare.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := bare.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		_ = bare.Wait() // the result of the process is in bare.ProcessState
		close(ended)
	}()
	defer func() {
		_ = bare.Process.Kill()
		<-ended
	}()
	c := b.Client(measure.Connections)
	c.Address, c.HTTP.Addr = address, address
	for late := time.After(10 * time.Second); c.Call("POST", measure.SendPath, measure.SendBody(), nil) != nil; {
		select {
		case <-ended:
			if ctx.Err() != nil { // the cancelled context killed the bare server
				return 0, ctx.Err()
			}
			return 0, fmt.Errorf("the bare server ended: %s", bare.ProcessState)
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-late:
			return 0, errors.New("the bare server is not ready after 10 seconds")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return processorTime(ctx, b, bare.Process.Pid, c)
}

// processorTime returns the processor time that a process needs for one message under load, in microseconds.
func processorTime(ctx context.Context, b *measure.Bench, pid int, c *measure.Client) (float64, error) {
	var messages atomic.Int64
	before := measure.ProcessorSeconds(pid)
	_, err := measure.ClosedLoop(ctx, measure.Connections, b.Time, func(int) error {
		messages.Add(1)
		return c.Call("POST", measure.SendPath, measure.SendBody(), nil)
	})
	return (measure.ProcessorSeconds(pid) - before) * 1e6 / float64(max(1, messages.Load())), err
}
