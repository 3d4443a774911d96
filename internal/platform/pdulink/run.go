package pdulink

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxQueue is the number of queued octets above which the reader waits: the other side sends requests, and reads no responses.
const maxQueue = 256 << 10

// read receives PDUs until the link fails.
func (l *Link[P]) read() {
	r := bufio.NewReader(l.conn)
	for l.awaitSpace() {
		sequence, pdu, err := l.protocol.Read(r)
		malformed := (*Malformed[P])(nil)
		if err != nil && !errors.As(err, &malformed) {
			l.fail(fmt.Errorf("read: %w", err))
			return
		}
		l.heard.Store(int64(time.Since(l.created)))
		switch {
		case err != nil:
			l.receiveMalformed(malformed)
		case l.protocol.IsResponse(pdu):
			l.receiveResponse(sequence, pdu)
		default:
			l.receiveRequest(sequence, pdu)
		}
		if err != nil && malformed.IsFatal {
			_, _ = io.Copy(io.Discard, l.conn) // until the writer or the other side closes the connection
			l.fail(err)
			return
		}
	}
}

// awaitSpace waits while the queue is too long. It returns false after the link failed.
func (l *Link[P]) awaitSpace() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > maxQueue && l.err == nil {
		l.changed.Wait()
	}
	return l.err == nil
}

func (l *Link[P]) receiveResponse(sequence uint32, response P) {
	l.mu.Lock()
	defer l.mu.Unlock()
	event := Event[P]{Sequence: sequence, PDU: response}
	c := l.calls[sequence]
	isAnswer := c != nil && l.protocol.Answers(c.request, response)
	if !isAnswer || c.isAbandoned {
		event.Err = ErrStray
	}
	l.observe(event)
	if isAnswer {
		l.conclude(c, response, nil)
	}
	if isAnswer && c.purpose == farewell {
		l.finishWith(ErrEnded) // before the other side can close the connection
	}
}

// receiveMalformed answers a request. A response without a readable result leaves the outcome of its request unclear.
func (l *Link[P]) receiveMalformed(m *Malformed[P]) {
	l.mu.Lock()
	l.observe(Event[P]{Sequence: m.Sequence, Err: m})
	if c := l.calls[m.Sequence]; c != nil && m.IsResponse {
		l.conclude(c, c.response, &UnclearError{Sequence: m.Sequence, Cause: m.Err})
	}
	l.mu.Unlock()
	if m.HasAnswer {
		_ = l.Send(m.Sequence, m.Answer)
	}
	if m.IsFatal {
		l.Finish(m.Err)
	}
}

func (l *Link[P]) receiveRequest(sequence uint32, request P) {
	l.mu.Lock()
	l.observe(Event[P]{Sequence: sequence, PDU: request})
	isFinishing := l.finish != nil
	l.mu.Unlock()
	response, ends, isAutomatic := l.protocol.Automatic(request)
	switch {
	case isFinishing: // nothing can be answered any more
	case ends:
		l.handlers.Go(func() { l.endByPeer(sequence, response) })
	case isAutomatic:
		_ = l.Send(sequence, response)
	case l.takeSlot(sequence, request):
		l.handlers.Go(func() {
			defer func() { <-l.handling }()
			l.handle(sequence, request)
		})
	}
}

// takeSlot takes a slot for a request that will be handled, or refuses the request.
func (l *Link[P]) takeSlot(sequence uint32, request P) bool {
	select {
	case l.handling <- struct{}{}:
		return true
	default:
	}
	if l.refuse(sequence, request, Overloaded) {
		return false
	}
	select {
	case l.handling <- struct{}{}:
		return true
	case <-l.draining: // without this, the response to the request to end the link would not be read
		l.refuse(sequence, request, Ending)
	case <-l.failed:
	}
	return false
}

// refuse answers a request that is not handled. It returns false if the protocol has no response.
func (l *Link[P]) refuse(sequence uint32, request P, reason Refusal) bool {
	response, hasResponse := l.protocol.Refuse(request, reason)
	if hasResponse {
		_ = l.Send(sequence, response)
	}
	return hasResponse
}

// handle answers a request. If the response cannot be encoded, the other side would wait for it.
func (l *Link[P]) handle(sequence uint32, request P) {
	response, hasResponse := l.options.Handle(l.ctx, request)
	if hasResponse && l.Send(sequence, response) != nil {
		l.refuse(sequence, request, Unencoded)
	}
}

// write sends the queue until the link fails or finishes.
func (l *Link[P]) write() {
	var octets []byte
	for {
		if octets = l.takeQueue(octets); len(octets) == 0 {
			l.closeWriting()
			return
		}
		// Without the deadline, another side that reads nothing would block the link forever.
		_ = l.conn.SetWriteDeadline(time.Now().Add(l.options.Write))
		n, err := l.conn.Write(octets)
		l.mu.Lock()
		l.written += uint64(n)
		l.mu.Unlock()
		if err != nil {
			l.fail(fmt.Errorf("write: %w", err))
			return
		}
	}
}

// takeQueue waits for octets and takes them. It returns none after the link failed, and when nothing follows. The array of the written octets becomes the next
// queue.
func (l *Link[P]) takeQueue(written []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && l.err == nil && l.finish == nil {
		l.changed.Wait()
	}
	if l.err != nil {
		return nil
	}
	octets := l.queue
	l.queue = written[:0]
	l.changed.Broadcast()
	return octets
}

// test sends a test after each idle time, and ends the link when the other side is silent. Only received PDUs count as life: a half-open link accepts octets.
func (l *Link[P]) test() {
	timer := time.NewTimer(l.options.Idle)
	defer timer.Stop()
	var unanswered int
	var tested time.Duration // the time of the last test
	for {
		select {
		case <-l.failed:
			return
		case <-timer.C:
		}
		heard, now := time.Duration(l.heard.Load()), time.Since(l.created)
		if unanswered > 0 && heard >= tested {
			unanswered = 0
		}
		switch {
		case unanswered == 0 && now-heard < l.options.Idle:
			timer.Reset(l.options.Idle - (now - heard))
			continue
		case unanswered == l.options.Tests:
			l.fail(ErrSilent)
			return
		}
		unanswered, tested = unanswered+1, now
		_, _ = l.send(l.protocol.Test(), probe) // it fails only after the end
		timer.Reset(l.options.Response)
	}
}
