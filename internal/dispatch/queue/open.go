package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"lksms/gen/queueq"
	"lksms/internal/dispatch/queue/claim"
	"lksms/internal/dispatch/sensitive"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
)

// becauseSealed is the reason why the lease of a sensitive message is given back.
const becauseSealed = "the text cannot be decrypted: the server needs the same SECRETS_KEY as the others"

// open replaces the masks of sensitive texts in leases by the texts. If the server does not have the key of a text, open gives the lease back, and the task waits
// for a server with the key.
func (s *Service) open(ctx context.Context, senderNo string, leases []claim.Lease) ([]claim.Lease, error) {
	if !slices.ContainsFunc(leases, func(l claim.Lease) bool { return l.Sealed != nil }) {
		return leases, nil
	}
	opened := make([]claim.Lease, 0, len(leases))
	var unreadable []Unused
	for _, l := range leases {
		if l.Sealed != nil {
			text, err := s.sensitive.Open(l.TaskID, *l.Sealed)
			if err != nil {
				unreadable = append(unreadable, Unused{TaskID: l.TaskID, LeaseID: l.LeaseID, Tried: true, Reason: becauseSealed})
				continue
			}
			l.Content, l.Values = text.Handed(l.Sign, l.SignMode == claim.SignInText), text.Values
		}
		opened = append(opened, l)
	}
	if len(unreadable) > 0 {
		if _, err := s.Release(ctx, senderNo, unreadable); err != nil {
			return nil, err
		}
	}
	return opened, nil
}

// Sensitive returns those of ids that are tasks of sensitive messages.
func (s *Service) Sensitive(ctx context.Context, ids []string) (map[string]bool, error) {
	found := map[string]bool{}
	if len(ids) == 0 {
		return found, nil
	}
	rows, err := s.inParts.SensitiveTasks(ctx, ids)
	for _, taskID := range rows {
		found[taskID] = true
	}
	return found, postgres.Wrap("find sensitive tasks", err, nil)
}

// hideTexts hides the texts in reports on sensitive messages.
func (s *Service) hideTexts(ctx context.Context, reports []Report) ([]Report, error) {
	var ids []string
	for _, r := range reports {
		if r.hasTexts() {
			ids = append(ids, r.TaskID)
		}
	}
	isSensitive, err := s.Sensitive(ctx, ids)
	if err != nil || len(isSensitive) == 0 {
		return reports, err
	}
	reports = slices.Clone(reports)
	for i, r := range reports {
		if isSensitive[r.TaskID] && r.hasTexts() {
			if reports[i], err = r.withoutTexts(); err != nil {
				return nil, err
			}
		}
	}
	return reports, nil
}

// rawFields are the fields of a report that contain no text of the sender.
var rawFields = []string{"task_id", "app_id", "lease_id", "status", "should_retry", "retry_after_seconds"}

// hasTexts reports whether a report contains texts of the sender that are not hidden yet. A sender app can add any fields to its reports.
func (r Report) hasTexts() bool {
	switch {
	case r.IsHidden:
		return false
	case r.ErrorMessage != nil || len(r.Raw) == 0:
		return r.ErrorMessage != nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(r.Raw, &fields) != nil {
		return true
	}
	for name := range fields {
		if !slices.Contains(rawFields, name) {
			return true
		}
	}
	return false
}

// withoutTexts returns a report on a sensitive message without texts of the sender.
func (r Report) withoutTexts() (Report, error) {
	fields := map[string]any{}
	if len(r.Raw) > 0 {
		if err := json.Unmarshal(r.Raw, &fields); err != nil {
			return r, fmt.Errorf("read report: %w", err)
		}
	}
	maps.DeleteFunc(fields, func(name string, _ any) bool { return !slices.Contains(rawFields, name) })
	if r.ErrorMessage != nil {
		r.ErrorMessage = new(sensitive.Hide(*r.ErrorMessage))
		fields["error_message"] = *r.ErrorMessage
	}
	r.ProviderNo = sensitive.HideToken(r.ProviderNo)
	var err error
	r.Raw, err = json.Marshal(fields)
	return r, postgres.Wrap("hide texts in report", err, nil)
}

// RotateSecrets encrypts the texts of waiting sensitive messages again with the first key of box. It returns the number of changed texts.
func RotateSecrets(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error) {
	q := queueq.New(db)
	rows, err := q.SealedList(ctx)
	if err != nil {
		return 0, postgres.Wrap("read sensitive texts", err, nil)
	}
	return secret.RenewAll(box, rows, func(row queueq.SealedListRow) (encrypted, owner string) {
		return row.Sealed, sensitive.Owner(row.TaskID)
	}, func(row queueq.SealedListRow, renewed string) (int64, error) {
		return q.SealedStore(ctx, queueq.SealedStoreParams{TaskID: row.TaskID, Before: row.Sealed, Sealed: renewed})
	})
}
