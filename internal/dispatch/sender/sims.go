package sender

import (
	"context"
	"fmt"

	"lksms/gen/senderq"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Sim is a SIM of a sender with its limits. Nil means no limit.
type Sim struct {
	Slot                                 int16   // from 1
	PhoneNumber                          *string // nil: unknown
	IsOn                                 bool
	PerDay, PerMonth, RecipientsPerMonth *int64 // segments, and different recipients
}

// Sims returns the SIMs of a sender with their usage, by slot. Fault: sender.not_found.
func (s *Service) Sims(ctx context.Context, no string) ([]SimRow, error) {
	if _, err := s.Get(ctx, nil, no); err != nil {
		return nil, err
	}
	rows, err := s.q.SimList(ctx, no)
	return rows, postgres.Wrap("list SIMs", err, nil)
}

// PutSims replaces the SIMs of a sender. Faults: sender.not_found, sender.is_driven; request.invalid if two SIMs have the same slot.
func (s *Service) PutSims(ctx context.Context, no string, sims []Sim) error {
	p := senderq.SimsPutParams{
		SenderNo: no, Slots: []int16{}, PhoneNumbers: []string{}, AreOn: []bool{}, PerDays: []*int64{}, PerMonths: []*int64{}, RecipientsPerMonths: []*int64{},
	}
	var wrong fault.Fields
	isUsed := map[int16]bool{}
	for i, sim := range sims {
		if isUsed[sim.Slot] {
			wrong.Invalid(fmt.Sprintf("sims.%d.slot", i), fault.Duplicate, nil)
		}
		isUsed[sim.Slot] = true
		p.Slots, p.PhoneNumbers, p.AreOn = append(p.Slots, sim.Slot), append(p.PhoneNumbers, optional.Value(sim.PhoneNumber)), append(p.AreOn, sim.IsOn)
		p.PerDays, p.PerMonths = append(p.PerDays, sim.PerDay), append(p.PerMonths, sim.PerMonth)
		p.RecipientsPerMonths = append(p.RecipientsPerMonths, sim.RecipientsPerMonth)
	}
	if err := wrong.Err(); err != nil {
		return err //nolint:wrapcheck // the error is a fault
	}
	return s.directory.Change(ctx, func(ctx context.Context) error {
		row, err := s.Get(ctx, nil, no)
		if err != nil {
			return err
		}
		if row.Kind != KindApp {
			return fault.New(fault.Conflict, fault.SenderIsDriven)
		}
		_, err = s.q.SimsPut(ctx, p)
		return postgres.Wrap("replace SIMs", err, errNoSender)
	})
}

// AddSims adds the SIMs that a phone reports to its sender, switched on and without limits. SIMs that exist keep their values; only an unknown number is filled in.
func (s *Service) AddSims(ctx context.Context, no string, sims []Sim) error {
	p := senderq.SimsAddParams{SenderNo: no}
	for _, sim := range sims {
		p.Slots, p.PhoneNumbers = append(p.Slots, sim.Slot), append(p.PhoneNumbers, optional.Value(sim.PhoneNumber))
	}
	if len(p.Slots) == 0 {
		return nil
	}
	return postgres.Wrap("add SIMs", s.q.SimsAdd(ctx, p), nil)
}
