package setting_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"lksms/internal/testkit/apptest"
)

// changeAsBefore changes a text limit with the statements of a server of version 1.0.0, which uses the former name of the limit.
func changeAsBefore(b *apptest.Bundle, name string, value int) {
	b.Exec(fmt.Sprintf("INSERT INTO settings (category, name, value) VALUES ('sms', '%s', '200') ON CONFLICT (category, name) DO NOTHING", name))
	b.Exec(fmt.Sprintf("UPDATE settings SET value = '%d', updated_by = 'before', updated_at = now() WHERE category = 'sms' AND name = '%s'", value, name))
}

func valueOf(b *apptest.Bundle, name string) int {
	return b.Count(fmt.Sprintf("SELECT coalesce((SELECT (value #>> '{}')::bigint FROM settings WHERE category = 'sms' AND name = '%s'), 0)", name))
}

// While servers of version 1.0.0 also run, an administrator can change the text limits on any server.
func TestServersOfThePreviousVersionHaveTheSameTextLimits(t *testing.T) {
	b := apptest.New(t)
	changeAsBefore(b, "content_most_marketing", 300)
	apptest.Eventually(t, "this server has the limit", func() bool {
		var read struct {
			Max int64 `json:"max_content_marketing"`
		}
		return json.Unmarshal(b.Expect(200, "", "GET", "/api/v1/admin/settings/sms", nil).Body.Data, &read) == nil && read.Max == 300
	})
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/sms", `{"max_content_marketing":400,"max_segments_verification":2}`)
	if content, segments := valueOf(b, "content_most_marketing"), valueOf(b, "segments_most_verification"); content != 400 || segments != 2 {
		t.Errorf("a server of the previous version has the limits %d and %d", content, segments)
	}
	changeAsBefore(b, "content_most_marketing", 500)
	if n := valueOf(b, "max_content_marketing"); n != 500 {
		t.Errorf("the limit is %d after the second change by a server of the version before", n)
	}
	b.Expect(200, "", "PUT", "/api/v1/admin/settings/queue", `{"max_retry_count":2}`)
	b.Exec("DELETE FROM settings WHERE name = 'max_retry_count'")
	if n := b.Count("SELECT count(*) FROM settings WHERE category = 'queue'"); n != 0 {
		t.Errorf("%d settings are stored that were never renamed", n)
	}
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'setting' AND entity_key ~ 'most'"); n != 0 {
		t.Errorf("the audit has %d changes under former names", n)
	}
	if n := b.Count("SELECT count(*) FROM audit WHERE entity = 'setting' AND entity_key = 'sms/max_content_marketing' AND action = 'changed'"); n != 3 {
		t.Errorf("the audit has %d changes of the limit", n)
	}
}

// If a statement writes both names of a limit, the value of the current name is stored under both names, whatever the order of the rows.
func TestTheCurrentNameOfATextLimitHasPrecedence(t *testing.T) {
	b := apptest.New(t)
	for n, rows := range []string{
		`('sms', 'content_most_marketing', '10'), ('sms', 'max_content_marketing', '20')`,
		`('sms', 'max_content_marketing', '21'), ('sms', 'content_most_marketing', '11')`,
	} {
		for _, isNew := range []bool{true, false} {
			if isNew {
				b.Exec("DELETE FROM settings")
			}
			b.Exec("INSERT INTO settings (category, name, value) VALUES " + rows + " ON CONFLICT (category, name) DO UPDATE SET value = excluded.value")
			if present, former := valueOf(b, "max_content_marketing"), valueOf(b, "content_most_marketing"); present != 20+n || former != 20+n {
				t.Errorf("%s: the present name has %d, the former one %d", rows, present, former)
			}
		}
	}
	b.Exec(`UPDATE settings SET value = CASE name WHEN 'max_content_marketing' THEN '30' ELSE '31' END::jsonb`)
	if present, former := valueOf(b, "max_content_marketing"), valueOf(b, "content_most_marketing"); present != 30 || former != 30 {
		t.Errorf("after an update, the present name has %d and the former name has %d", present, former)
	}
	changeAsBefore(b, "content_most_marketing", 40)
	if n := valueOf(b, "max_content_marketing"); n != 40 {
		t.Errorf("a later change by a server of the version before gives %d", n)
	}
}

// If a limit was deleted, so that its default applies again, servers of the previous version do not restore it.
func TestARollbackDoesNotRestoreADeletedTextLimit(t *testing.T) {
	b := apptest.New(t)
	changeAsBefore(b, "content_most_marketing", 300)
	changeAsBefore(b, "content_most_notification", 50)
	b.Exec("DELETE FROM settings WHERE category = 'sms' AND name = 'max_content_marketing'")
	for _, name := range []string{"20261127123000_mirror_renamed_settings", "20261127000011_rename_settings"} {
		text, err := os.ReadFile("../../../db/migrations/" + name + ".sql")
		if err != nil {
			t.Fatal(err)
		}
		_, down, _ := strings.Cut(string(text), "-- migrate:down")
		b.Exec(down)
	}
	if n := valueOf(b, "content_most_marketing"); n != 0 {
		t.Errorf("the deleted limit is %d again", n)
	}
	if n := valueOf(b, "content_most_notification"); n != 50 {
		t.Errorf("the other limit is %d", n)
	}
}
