package notification

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lksms/gen/notificationq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/placeholder"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/result"
)

// contactPrefix is the prefix of the placeholders of an e-mail that are filled for each recipient, such as ${contact.name}. If the payload contains the same
// key, the value of the payload is used.
const contactPrefix = "contact."

// contactKeys returns the placeholders of texts that are filled for each recipient.
func contactKeys(channel string, payload map[string]any, texts ...string) (keys []string) {
	if channel != directory.Email {
		return nil
	}
	for _, text := range texts {
		for _, key := range placeholder.Keys(text) {
			if strings.HasPrefix(key, contactPrefix) && payload[key] == nil {
				keys = append(keys, key)
			}
		}
	}
	return distinct(keys)
}

// contactValues returns the values of contacts for placeholders, by user id.
func (s *Service) contactValues(ctx context.Context, companyID int64, userIDs, keys []string) (map[string]map[string]string, error) {
	rows, err := s.contacts.FindByUserIDs(ctx, companyID, userIDs)
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]string, len(rows))
	for _, c := range rows {
		var has map[string]string
		if err := json.Unmarshal(c.Attributes, &has); err != nil {
			return nil, fmt.Errorf("read attributes of contact: %w", err)
		}
		maps.Copy(has, map[string]string{
			"user_id": c.UserID, "name": optional.Value(c.Name), "phone": optional.Value(c.Phone), "email": optional.Value(c.Email),
		})
		values := map[string]string{}
		for _, key := range keys {
			if value := has[strings.TrimPrefix(key, contactPrefix)]; value != "" {
				values[key] = value
			}
		}
		all[c.UserID] = values
	}
	return all, nil
}

// personalise sets the values of the placeholders (m.keys) for each recipient. If a value is missing for a recipient, personalise sets the reason instead. If
// m.keys is empty, all recipients get the same text, and personalise does nothing.
func (s *Service) personalise(ctx context.Context, n notificationq.NotificationDueRow, m message, people []submit.Person) error {
	if len(m.keys) == 0 {
		return nil
	}
	ids := make([]string, len(people))
	for i, p := range people {
		ids[i] = p.UserID
	}
	all, err := s.contactValues(ctx, n.CompanyID, ids, m.keys)
	if err != nil {
		return err
	}
	for i := range people {
		values := all[people[i].UserID]
		if values == nil {
			values = map[string]string{}
		}
		people[i].Values = values
		missing := slices.DeleteFunc(slices.Clone(m.keys), func(key string) bool { return values[key] != "" })
		if len(missing) > 0 {
			people[i].Refused = result.MissingParameters + strings.Join(missing, ", ")
			continue
		}
		text, err := json.Marshal(values)
		if err != nil {
			return fmt.Errorf("write values of contact: %w", err)
		}
		filled, err := placeholder.Text{Title: m.title, Content: m.content, HTML: m.html, Params: m.params}.ForContact(text)
		if err != nil {
			return err
		}
		if filled.IsTooLong() {
			people[i].Refused = result.TooLong
			continue
		}
		people[i].Content = filled.Content
	}
	return nil
}
