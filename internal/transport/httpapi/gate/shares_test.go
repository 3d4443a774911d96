package gate

import (
	"testing"

	"lksms/internal/platform/access"
	"lksms/internal/transport/httpapi/gate/capacity"
	"lksms/internal/transport/httpapi/gate/contract"
)

func TestOnlyCostlyRequestsOfCompaniesUseSlots(t *testing.T) {
	t.Parallel()
	rules, err := contract.Read()
	if err != nil {
		t.Fatal(err)
	}
	submitter := access.Principal{Username: "acme", Role: access.RoleSubmit, CompanyID: 7}
	for name, c := range map[string]struct {
		who       access.Principal
		operation string
		body      int
		takes     bool
	}{
		"a message":              {submitter, "POST /api/v1/sms/send", 100, false},
		"an explanation":         {submitter, "GET /api/v1/sms/task/{task_id}/explain", 0, true},
		"a cancellation":         {submitter, "POST /api/v1/sms/task/{task_id}/cancel", 0, false},
		"an event":               {submitter, "POST /api/v1/notifications/events", 100, false},
		"a large message":        {submitter, "POST /api/v1/sms/send", capacity.SmallBody + 1, true},
		"a batch":                {submitter, contract.SendBatch, 100, true},
		"a list":                 {submitter, "GET /api/v1/sms/tasks", 0, true},
		"statistics":             {access.Principal{Username: "reads", Role: access.RoleRead, CompanyID: 7}, "GET /api/v1/admin/statistics", 0, true},
		"a task":                 {submitter, "GET /api/v1/sms/task/{task_id}", 0, false},
		"a batch without a user": {access.Principal{}, contract.SendBatch, 100, false},
		"a batch of an admin":    {access.Principal{Username: "admin", Role: access.RoleAdmin, SeesAll: true}, contract.SendBatch, 100, false},
		"a claim of a sender":    {access.Principal{Username: "phone", Role: access.RoleSend}, "POST /api/v1/sms/tasks/claim", 100, false},
	} {
		s := &Gate{slots: capacity.NewSlots(1), contract: rules}
		leave, err := s.slot(t.Context(), &Exchange{Caller: Caller{User: c.who}, Operation: c.operation, Body: Body{Raw: make([]byte, c.body)}})
		if err != nil {
			t.Fatal(err)
		}
		if takes := s.slots.Active() > 0; takes != c.takes {
			t.Errorf("%s takes a slot: %v", name, takes)
		}
		leave()
	}
	s := &Gate{slots: capacity.NewSlots(1), contract: rules}
	leave, err := s.slot(t.Context(), &Exchange{Caller: Caller{User: submitter}, Operation: "POST /api/v1/sms/send", DryRun: true})
	if err != nil || s.slots.Active() != 1 {
		t.Errorf("a dry run takes no slot: %v", err)
	}
	leave()
}
