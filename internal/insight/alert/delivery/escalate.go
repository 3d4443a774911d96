package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lksms/gen/alertq"
	"lksms/internal/insight/alert"
	"lksms/internal/platform/postgres"
)

// escalate records which deliveries were sent, and escalates the unsent deliveries: first to the other channels of their receiver, then to the other receivers.
// A delivery escalates at most twice, because deliveries that an escalation has added do not escalate.
func (t *Notifier) escalate(ctx context.Context) error {
	if err := t.recordSent(ctx); err != nil {
		return err
	}
	rows, err := t.q.AlertDeliveriesUnsent(ctx, notifyBatch)
	if err != nil || len(rows) == 0 {
		return postgres.Wrap("find deliveries that were not sent", err, nil)
	}
	run, err := t.newRun(ctx)
	if err != nil {
		return err
	}
	dues := map[bool][]alertq.AlertDeliveriesDueRow{} // the key is true for deliveries that have escalated before
	at := map[int64]map[int64]time.Time{}             // escalate_at, by id of the receiver and id of the alert
	for _, row := range rows {
		dues[row.WasEscalated] = append(dues[row.WasEscalated], alertq.AlertDeliveriesDueRow{
			Alert: row.Alert, ReceiverID: row.ReceiverID, Tries: row.Tries, Failures: row.Failures, RuleName: row.RuleName,
		})
		if at[row.ReceiverID] == nil {
			at[row.ReceiverID] = map[int64]time.Time{}
		}
		at[row.ReceiverID][row.Alert.ID] = row.EscalateAt
	}
	var failures error
	for _, isLast := range []bool{false, true} {
		for _, together := range groupDeliveries(dues[isLast]) {
			if err := run.escalate(ctx, together, at[together[0].ReceiverID], isLast); err != nil {
				failures = errors.Join(failures, fmt.Errorf("escalate alert %d: %w", together[0].Alert.ID, err))
			}
		}
	}
	return failures
}

// recordSent records which messages about alerts were sent. If a partition of tasks is locked, the next run does this.
func (t *Notifier) recordSent(ctx context.Context) error {
	ids, err := t.q.AlertsAwaited(ctx)
	if err != nil || len(ids) == 0 {
		return postgres.Wrap("find messages of alerts", err, nil)
	}
	err = t.db.Briefly(ctx, func(ctx context.Context) error {
		return postgres.Wrap("record sent alerts", t.q.AlertDeliveriesSent(ctx, ids), nil)
	})
	if postgres.IsLockTimeout(err) {
		return nil
	}
	return err
}

// escalate escalates a bunch of deliveries to one receiver. If isLast is false, it notifies this receiver through its other channels. If isLast is true, or if
// all other channels reject the alerts, it adds deliveries to the other receivers.
func (r *run) escalate(ctx context.Context, due []alertq.AlertDeliveriesDueRow, at map[int64]time.Time, isLast bool) error {
	to, isKnown := r.receivers[due[0].ReceiverID]
	if !isKnown {
		return nil // the receiver was deleted meanwhile
	}
	others, err := r.otherChannels(ctx, ownChannel(due[0].Alert), to)
	if err != nil {
		return err
	}
	return r.db.Tx(ctx, func(ctx context.Context) error {
		due, err := r.lockUnsent(ctx, due, at)
		if err != nil || len(due) == 0 {
			return err
		}
		var made enqueued
		if !isLast && len(others) > 0 {
			if made, err = r.enqueue(ctx, to, due, others, dedupKey(due)); err != nil {
				return err
			}
		}
		p := alertq.AlertDeliveriesEscalateParams{
			ReceiverID: to.ID, Awaits: made.ids, Channels: made.took, IsLast: len(made.took) == 0,
		}
		for _, d := range due {
			p.AlertIds = append(p.AlertIds, d.Alert.ID)
		}
		return postgres.Wrap("escalate deliveries", r.q.AlertDeliveriesEscalate(ctx, p), nil)
	})
}

// otherChannels returns the channels that reach people of a receiver and that channelsFor does not use for alerts about alertChannel.
func (r *run) otherChannels(ctx context.Context, alertChannel string, to alertq.AlertReceiverListRow) ([]string, error) {
	if to.Kind != alert.ByNotification {
		return nil, nil
	}
	used, _, err := r.channelsFor(ctx, alertChannel, to)
	if err != nil {
		return nil, err
	}
	reach, err := r.reach(ctx, to)
	return slices.DeleteFunc(slices.Clone(reach), func(channel string) bool { return slices.Contains(used, channel) }), err
}

// lockUnsent locks deliveries to one receiver until the end of the transaction. It returns those that still must escalate.
func (t *Notifier) lockUnsent(ctx context.Context, due []alertq.AlertDeliveriesDueRow, at map[int64]time.Time) ([]alertq.AlertDeliveriesDueRow, error) {
	p := alertq.AlertDeliveriesHoldUnsentParams{ReceiverID: due[0].ReceiverID}
	for _, d := range due {
		p.AlertIds = append(p.AlertIds, d.Alert.ID)
		p.EscalateAts = append(p.EscalateAts, at[d.Alert.ID])
	}
	ids, err := t.q.AlertDeliveriesHoldUnsent(ctx, p)
	return slices.DeleteFunc(slices.Clone(due), func(d alertq.AlertDeliveriesDueRow) bool { return !slices.Contains(ids, d.Alert.ID) }),
		postgres.Wrap("hold deliveries", err, nil)
}
