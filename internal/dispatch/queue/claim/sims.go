package claim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lksms/gen/dispatchq"
)

// conversationFor is the time after its last message during which a conversation keeps its SIM.
const conversationFor = 30 * 24 * time.Hour

// sims chooses the SIMs of the tasks that one part of a claim leases. The claim has locked the sender, so the values cannot change meanwhile.
type sims struct {
	list    []dispatchq.SimStandingsRow // SIMs that are on, by slot
	isFree  bool                        // no SIM has a limit: the sender chooses the SIM of a new conversation
	tasks   map[string]dispatchq.SimTasksRow
	counted map[simRecipient]bool // recipients that the SIMs count this month
}

// simRecipient is a recipient of a SIM.
type simRecipient struct {
	slot int16
	hash string
}

// readSims returns the SIMs of a sender. Call it after the sender is locked. nil: the sender has no SIMs.
func (a admission) readSims(ctx context.Context, q *dispatchq.Queries) (*sims, error) {
	if !a.sender.HasSims {
		return nil, nil //nolint:nilnil // no SIMs
	}
	all, err := q.SimStandings(ctx, a.sender.SenderID)
	if err != nil {
		return nil, fmt.Errorf("read SIMs of sender: %w", err)
	}
	if len(all) == 0 { // the SIMs were removed after SenderAdmit
		return nil, nil //nolint:nilnil // no SIMs
	}
	s := &sims{tasks: map[string]dispatchq.SimTasksRow{}, counted: map[simRecipient]bool{}}
	s.isFree = !slices.ContainsFunc(all, func(r dispatchq.SimStandingsRow) bool { return r.IsLimited })
	s.list = slices.DeleteFunc(all, func(r dispatchq.SimStandingsRow) bool {
		return !r.IsOn || r.SegmentsLeft != nil && *r.SegmentsLeft <= 0
	})
	return s, nil
}

// at returns the time after the lock of the sender. One of the SIMs must be on.
func (s *sims) at() *time.Time { return &s.list[0].At }

// canLackSim reports whether a usual task possibly has no SIM.
func (s *sims) canLackSim(maxSegments int64) bool {
	return !slices.ContainsFunc(s.list, func(r dispatchq.SimStandingsRow) bool {
		return (r.SegmentsLeft == nil || *r.SegmentsLeft >= maxSegments) && (r.RecipientsLeft == nil || *r.RecipientsLeft > 0)
	})
}

// addTasks reads the conversations of the recipients of tasks.
func (s *sims) addTasks(ctx context.Context, q *dispatchq.Queries, c Request, senderID int64, offers []offer) error {
	if len(offers) == 0 {
		return nil
	}
	p := dispatchq.SimTasksParams{SenderNo: c.SenderNo, SenderID: senderID, ConversationFor: conversationFor, Month: s.list[0].Month}
	for _, o := range offers {
		p.TaskIds = append(p.TaskIds, o.TaskID)
	}
	rows, err := q.SimTasks(ctx, p)
	if err != nil {
		return fmt.Errorf("read SIMs of recipients: %w", err)
	}
	for _, row := range rows {
		s.tasks[row.TaskID] = row
		for _, slot := range row.Counted {
			s.counted[simRecipient{slot, string(row.RecipientHash)}] = true
		}
	}
	return nil
}

// take returns the SIM of a task, and subtracts the task from what is left of the SIM. These rules apply, in this order: the task keeps the SIM of its
// conversation; a SIM that already counts the recipient this month is used; the first SIM with room is used. ok is false if no SIM has room for the task. A nil
// slot means that the sender chooses.
func (s *sims) take(o offer) (slot *int16, ok bool) {
	t := s.tasks[o.TaskID]
	var chosen *dispatchq.SimStandingsRow
	for i := range s.list {
		r := &s.list[i]
		isCounted := s.counted[simRecipient{r.Slot, string(t.RecipientHash)}]
		if r.SegmentsLeft != nil && *r.SegmentsLeft < o.Segments || r.RecipientsLeft != nil && *r.RecipientsLeft <= 0 && !isCounted {
			continue
		}
		if r.Slot == t.Sim {
			chosen = r
			break
		}
		if chosen == nil || isCounted && !s.counted[simRecipient{chosen.Slot, string(t.RecipientHash)}] {
			chosen = r
		}
	}
	if chosen == nil {
		return nil, false
	}
	of := simRecipient{chosen.Slot, string(t.RecipientHash)}
	if s.isFree && chosen.Slot != t.Sim && !s.counted[of] {
		return nil, true
	}
	if chosen.SegmentsLeft != nil {
		*chosen.SegmentsLeft -= o.Segments
	}
	if chosen.RecipientsLeft != nil && !s.counted[of] {
		*chosen.RecipientsLeft--
	}
	s.counted[of] = true
	return &chosen.Slot, true
}

// charge adds leases to the usage of their SIMs.
func (s *sims) charge(ctx context.Context, q *dispatchq.Queries, senderID int64, leases []Lease) error {
	p := dispatchq.SimChargeParams{SenderID: senderID}
	for _, l := range leases {
		if l.Sim != nil {
			p.Slots, p.Segments = append(p.Slots, *l.Sim), append(p.Segments, l.segments)
			p.RecipientHashes = append(p.RecipientHashes, s.tasks[l.TaskID].RecipientHash)
		}
	}
	if len(p.Slots) == 0 {
		return nil
	}
	p.At, p.Month = *s.at(), s.list[0].Month
	if err := q.SimCharge(ctx, p); err != nil {
		return fmt.Errorf("charge SIMs: %w", err)
	}
	return nil
}
