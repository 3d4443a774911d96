package pdulink

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Close ends the link at once, and waits for its goroutines. Therefore, Handle must not call it.
func (l *Link[P]) Close() {
	l.fail(ErrClosed)
	<-l.done
}

// End ends the link in the way of its protocol: it rejects new requests, waits for the open requests of both sides, asks the other side to end the link, and
// waits for its response. The link ends in any case, at the latest with the context; open requests are then not sent or unclear. Handle must not call it.
func (l *Link[P]) End(ctx context.Context) error {
	defer l.Close()
	err := l.askEnd(ctx)
	if err == nil {
		select {
		case <-l.done:
		case <-ctx.Done():
		}
	}
	if errors.Is(l.Err(), ErrEnded) {
		return nil
	}
	return err
}

func (l *Link[P]) askEnd(ctx context.Context) error {
	l.mu.Lock()
	isFirst := l.stopRequests()
	l.mu.Unlock()
	if !isFirst {
		return nil // the other side ends the link
	}
	for _, slots := range []chan struct{}{l.window, l.handling} {
		if err := l.fill(ctx, slots); err != nil {
			return err
		}
	}
	c, err := l.send(l.protocol.End(), farewell)
	if err != nil {
		return err
	}
	_, err = l.await(ctx, c)
	return err
}

// fill waits until nothing else has a slot, and keeps all slots.
func (l *Link[P]) fill(ctx context.Context, slots chan struct{}) error {
	for range cap(slots) {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.failed:
			return l.Err()
		}
	}
	return nil
}

// endByPeer answers a request to end the link after the requests that are being handled.
func (l *Link[P]) endByPeer(sequence uint32, response P) {
	l.mu.Lock()
	isFirst := l.stopRequests()
	l.mu.Unlock()
	if isFirst { // otherwise both sides end the link at the same time, and End has waited
		ctx, cancel := context.WithTimeout(l.ctx, l.options.Response)
		defer cancel()
		_ = l.fill(ctx, l.handling)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.enqueue(sequence, response)
	l.finishWith(ErrEnded) // before the other side can close the connection
}

// Finish closes the connection after the PDUs that are queued. It does not wait. The cause becomes the cause of the end.
func (l *Link[P]) Finish(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finishWith(cause)
}

// finishWith is Finish. The caller holds mu.
func (l *Link[P]) finishWith(cause error) {
	if l.finish == nil {
		l.finish = cause
	}
	l.stopRequests()
	l.changed.Broadcast()
}

// fail closes the connection. Only the first cause counts, or the cause of Finish.
func (l *Link[P]) fail(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if l.err = cause; l.finish != nil {
		l.err = l.finish
	}
	l.stopRequests()
	l.cancel()
	_ = l.conn.Close()
	close(l.failed)
	l.changed.Broadcast()
}

// settle concludes the open requests after the link failed. The writer has stopped, so it is known which octets the connection accepted: a request without its
// last octet cannot have been executed.
func (l *Link[P]) settle() {
	<-l.failed
	l.loops.Wait()
	l.mu.Lock()
	for _, c := range l.calls {
		var err error = &UnclearError{Sequence: c.sequence, Cause: l.err}
		if c.end > l.written {
			err = fmt.Errorf("%w: %w", ErrNotSent, l.err)
		}
		l.conclude(c, c.response, err)
	}
	l.mu.Unlock()
	l.handlers.Wait()
	close(l.done)
}

// lingering is the time in which the other side can end a connection that this side ended.
const lingering = time.Second

// closeWriting tells the other side that nothing follows, and leaves the connection to the reader until the other side closes it. Closing at once would discard
// octets that the other side has not read yet, if it has sent more octets meanwhile.
func (l *Link[P]) closeWriting() {
	half, hasHalves := l.conn.(interface{ CloseWrite() error })
	if !hasHalves || half.CloseWrite() != nil {
		l.fail(ErrClosed)
		return
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(lingering))
}
