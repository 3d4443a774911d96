package audit_test

import (
	"os"
	"strings"
	"testing"

	"lksms/internal/testkit/apptest"
)

// Each kind of entity that a trigger records is in the contract, and in the console with its name in both languages.
func TestEntitiesOfTheAuditAreListedEverywhere(t *testing.T) {
	b := apptest.New(t)
	all := strings.Fields(apptest.Scan[string](b, `SELECT string_agg(DISTINCT split_part(encode(tgargs, 'escape'), '\000', 1), ' ') FROM pg_trigger WHERE tgname LIKE 'audited%'`))
	if len(all) < 30 {
		t.Fatalf("only %d kinds: %v", len(all), all)
	}
	for file, form := range map[string]string{
		"../../../api/openapi.yaml": "`%`", "../../../web/src/pages/audit/AuditPage.vue": "  '%',\n", "../../../web/src/i18n/en/audit.ts": "    %: '", "../../../web/src/i18n/zh/audit.ts": "    %: '",
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, entity := range all {
			if !strings.Contains(string(content), strings.ReplaceAll(form, "%", entity)) {
				t.Errorf("%s does not list %s", file, entity)
			}
		}
	}
}

// The fields of a link to a carrier are visible in the audit, except those that can contain secrets.
func TestFieldsOfLinksAreVisibleInTheAudit(t *testing.T) {
	b := apptest.NewWith(t, apptest.DefaultRules, apptest.WithSecrets)
	b.AddSender(map[string]any{"sender_no": "cmpp", "kind": "cmpp", "config": map[string]any{
		"host": "127.0.0.1", "port": 7890, "source_addr": "900001", "shared_secret": "hush", "src_id": "10690001", "version": "3.0", "extensions": map[string]any{"default": "01"},
	}})
	row := apptest.Scan[string](b, "SELECT after::text FROM audit WHERE entity = 'sender' AND entity_key = 'cmpp' ORDER BY id LIMIT 1")
	for _, want := range []string{"900001", "10690001", "3.0"} {
		if !strings.Contains(row, want) {
			t.Errorf("the audit does not show %s: %s", want, row)
		}
	}
	if strings.Contains(row, "hush") {
		t.Errorf("the audit shows the secret: %s", row)
	}
}
