package queue

import (
	"context"
	"encoding/json"
	"fmt"
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
			l.Content, l.Values, l.Hider = text.Handed(l.Sign, l.SignMode == claim.SignInText), text.Values, text.Hider()
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

// Hiders returns the Hiders of those tasks of ids that are sensitive.
func (s *Service) Hiders(ctx context.Context, ids []string) (map[string]sensitive.Hider, error) {
	hiders := map[string]sensitive.Hider{}
	if len(ids) == 0 {
		return hiders, nil
	}
	rows, err := s.inParts.SensitiveTasks(ctx, ids)
	for _, row := range rows {
		hiders[row.TaskID] = sensitive.HideAll // the text of an ended task was deleted
		if row.Sealed == nil {
			continue
		}
		if text, err := s.sensitive.Open(row.TaskID, *row.Sealed); err == nil {
			hiders[row.TaskID] = text.Hider()
		}
	}
	return hiders, postgres.Wrap("find sensitive tasks", err, nil)
}

// hideTexts hides the texts of sensitive messages in reports that have an error text.
func (s *Service) hideTexts(ctx context.Context, reports []Report) ([]Report, error) {
	var ids []string
	for _, r := range reports {
		if r.ErrorMessage != nil && !r.IsHidden {
			ids = append(ids, r.TaskID)
		}
	}
	hiders, err := s.Hiders(ctx, ids)
	if err != nil || len(hiders) == 0 {
		return reports, err
	}
	reports = slices.Clone(reports)
	for i := range reports {
		r := &reports[i]
		if h := hiders[r.TaskID]; h.IsSensitive() && r.ErrorMessage != nil && !r.IsHidden {
			r.ErrorMessage, r.ProviderNo = new(h.Hide(*r.ErrorMessage)), h.HideToken(r.ProviderNo)
			if r.Raw, err = hideRaw(h, r.Raw); err != nil {
				return nil, err
			}
		}
	}
	return reports, nil
}

// hideRaw hides a sensitive text in the request of a report.
func hideRaw(h sensitive.Hider, raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	hidden, err := json.Marshal(hideIn(h, "", fields))
	return hidden, postgres.Wrap("hide text in report", err, nil)
}

// hideIn hides a sensitive text in the value of a field. Ids and numbers remain.
func hideIn(h sensitive.Hider, name string, value any) any {
	switch value := value.(type) {
	case string:
		if slices.Contains([]string{"task_id", "app_id", "id", "state", "phoneNumber"}, name) {
			return value
		}
		return h.Hide(value)
	case []any:
		for i, one := range value {
			value[i] = hideIn(h, name, one)
		}
	case map[string]any:
		for name, one := range value {
			value[name] = hideIn(h, name, one)
		}
	}
	return value
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
