package carrier

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/platform/fault"
)

// judgement is what a status of the carrier means for a message.
type judgement int

// These are the judgements.
const (
	retryLater judgement = iota // the message can be accepted later
	refuse                      // the fault of this message: a retry is useless
	slowDown                    // too many messages: the same message is sent again, more slowly
	trouble                     // the fault of the sender: no message is accepted
	unclear                     // the carrier possibly has the message
)

var judgementsByName = map[string]judgement{"retry": retryLater, "message": refuse, "throttled": slowDown, "sender": trouble, "unclear": unclear}

// readStatuses returns the judgements of statuses: those of a protocol, changed by a configuration. named returns the status with a name. A status can also be
// written as a number. 0 is no error.
func readStatuses[S ~uint32](judgements map[S]judgement, configured map[string]string, named func(string) (S, bool)) (map[S]judgement, error) {
	all := maps.Clone(judgements)
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		status, isKnown := named(name)
		if number, err := strconv.ParseUint(name, 0, 32); err == nil {
			status, isKnown = S(number), true
		}
		if !isKnown || status == 0 {
			return nil, invalid("statuses."+name, fault.WrongFormat, nil)
		}
		j, isKnown := judgementsByName[configured[name]]
		if !isKnown {
			return nil, invalid("statuses."+name, fault.NotAllowed, slices.Sorted(maps.Keys(judgementsByName)))
		}
		all[status] = j
	}
	return all, nil
}

// outcome returns the outcome of a message that the carrier answered with an error. slowDown has an outcome only if the time for the message is over, or in a test of the sender.
func (a answer) outcome() provider.Outcome {
	o := provider.Outcome{Code: a.code, Error: fmt.Sprintf("the carrier answered %s", a.text), Answer: a.raw}
	switch a.judgement {
	case refuse:
		o.Permanent = true
	case trouble, slowDown:
		o.Trouble = true
	case unclear:
		o.Unknown, o.Outage = true, true
	case retryLater:
	}
	return o
}
