package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"lksms/gen/alertq"
	"lksms/internal/insight/alert"
	"lksms/internal/platform/postgres"
)

// reach returns the usable channels on which at least one person of a receiver has an address.
func (r *run) reach(ctx context.Context, to alertq.AlertReceiverListRow) ([]string, error) {
	if channels, isKnown := r.reached[to.ID]; isKnown {
		return channels, nil
	}
	channels := []string{}
	for _, channel := range r.usable {
		addresses, err := r.contacts.Addresses(ctx, *to.CompanyID, channel, to.UserIds)
		if err != nil {
			return nil, fmt.Errorf("find addresses: %w", err)
		}
		if slices.ContainsFunc(addresses, func(address string) bool { return address != "" }) {
			channels = append(channels, channel)
		}
	}
	r.reached[to.ID] = channels
	return channels, nil
}

// allChannels is the result of ownChannel for alerts that concern all channels. No real channel has this name.
const allChannels = "*"

// ownChannel returns the own channel of an alert: the channel that the alert reports as failing. It returns allChannels if the alert concerns all channels, and
// an empty text if it concerns no channel.
func ownChannel(a alertq.Alert) string {
	switch {
	case a.Channel != nil:
		return *a.Channel
	case a.Kind == alert.QueueDepth || a.Kind == alert.FailureRate:
		return allChannels
	default:
		return ""
	}
}

// areEnough reports whether at least one of channels can still send if the channel of an alert fails. If alertChannel is allChannels, one of the channels is
// assumed to fail, and it is unknown which.
func areEnough(alertChannel string, channels []string) bool {
	if alertChannel == allChannels {
		return len(channels) > 1
	}
	return slices.ContainsFunc(channels, func(channel string) bool { return channel != alertChannel })
}

// channelsFor returns the channels on which people of a receiver are notified of alerts about alertChannel. channelsFor returns first the channels that the
// receiver names. If these channels are not enough (see areEnough), channelsFor adds all other channels that reach people of the receiver. isSafe reports
// whether the returned channels are enough.
func (r *run) channelsFor(ctx context.Context, alertChannel string, to alertq.AlertReceiverListRow) (channels []string, isSafe bool, err error) {
	if alertChannel == "" {
		return to.Channels, true, nil
	}
	reach, err := r.reach(ctx, to)
	if err != nil {
		return nil, false, err
	}
	isOf := func(channel string) bool { return slices.Contains(to.Channels, channel) }
	if areEnough(alertChannel, slices.DeleteFunc(slices.Clone(reach), func(channel string) bool { return !isOf(channel) })) {
		return to.Channels, true, nil
	}
	others := slices.DeleteFunc(slices.Clone(reach), func(channel string) bool { return isOf(channel) || channel == alertChannel })
	return slices.Concat(to.Channels, others), areEnough(alertChannel, reach), nil
}

// guard records for each due alert whether its receivers can be reached only through its own channel.
func (r *run) guard(ctx context.Context, due []alertq.AlertDeliveriesDueRow) error {
	alerts := map[int64]alertq.Alert{}
	for _, d := range due {
		if !d.IsEnd && ownChannel(d.Alert) != "" {
			alerts[d.Alert.ID] = d.Alert
		}
	}
	rows, err := r.q.AlertReceiversOf(ctx, slices.Sorted(maps.Keys(alerts)))
	if err != nil {
		return postgres.Wrap("read receivers of alerts", err, nil)
	}
	reach, isSafe := map[int64][]string{}, map[int64]bool{} // both maps have the id of the alert as key
	for _, row := range rows {
		switch to := r.receivers[row.ReceiverID]; to.Kind {
		case alert.ByAlertmanager:
			isSafe[row.AlertID] = isSafe[row.AlertID] || to.FailingSince == nil
		case alert.ByNotification:
			channels, err := r.reach(ctx, to)
			if err != nil {
				return err
			}
			reach[row.AlertID] = append(reach[row.AlertID], channels...)
		}
	}
	var failures error
	for _, id := range slices.Sorted(maps.Keys(alerts)) {
		slices.Sort(reach[id])
		onlyOwn := !isSafe[id] && !areEnough(ownChannel(alerts[id]), slices.Compact(reach[id]))
		if onlyOwn == alerts[id].OnlyOwnChannel {
			continue
		}
		if err := r.q.AlertGuard(ctx, alertq.AlertGuardParams{ID: id, OnlyOwnChannel: onlyOwn}); err != nil {
			failures = errors.Join(failures, fmt.Errorf("guard alert %d: %w", id, err))
		}
	}
	return failures
}
