package app_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	api "lksms/gen/client"
	"lksms/internal/dispatch/driver"
	"lksms/internal/platform/setting"
	"lksms/internal/testkit/apptest"
)

func TestTheSchemaDumpContainsNoTestObjects(t *testing.T) {
	t.Parallel()
	dump, err := os.ReadFile("../../db/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	fixture, err := os.ReadFile("../testkit/pgtest/tasks.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, created := range regexp.MustCompile(`CREATE (?:OR REPLACE )?(FUNCTION|TRIGGER) (\w+)`).FindAllStringSubmatch(string(fixture), -1) {
		if regexp.MustCompile(`CREATE ` + created[1] + ` (?:public\.)?` + created[2] + `\b`).Match(dump) {
			t.Errorf("db/schema.sql has the %s %s, which only tests create", strings.ToLower(created[1]), created[2])
		}
	}
}

// schemasOf loads the contract.
func schemasOf(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// enumOf returns the sorted values of an enum of the contract.
func enumOf(doc *openapi3.T, schema string) []string {
	var all []string
	for _, value := range doc.Components.Schemas[schema].Value.Enum {
		all = append(all, fmt.Sprint(value))
	}
	slices.Sort(all)
	return all
}

func TestEveryEnumOfTheContractNamesAllItsValues(t *testing.T) {
	t.Parallel()
	for name, schema := range schemasOf(t).Components.Schemas {
		if names, has := schema.Value.Extensions["x-enum-varnames"].([]any); has && len(names) != len(schema.Value.Enum) {
			t.Errorf("%s has %d values and %d x-enum-varnames", name, len(schema.Value.Enum), len(names))
		}
	}
}

// This test compares the kinds of events in the description of listEvents with those that the console offers.
func TestTheContractAndTheConsoleHaveTheSameEvents(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../web/src/pages/audit/EventsPage.vue")
	if err != nil {
		t.Fatal(err)
	}
	kinds := func(text, line, kind string) (all []string) {
		for _, found := range regexp.MustCompile(line).FindAllString(text, -1) {
			for _, one := range regexp.MustCompile(kind).FindAllStringSubmatch(found, -1) {
				all = append(all, one[1])
			}
		}
		slices.Sort(all)
		return all
	}
	description := schemasOf(t).Paths.Find("/api/v1/admin/events").Get.Description
	want, got := kinds(description, "(?m)^- `[^:]*:", "`([a-z_.]+)`"), kinds(string(page), `(?m)^  '[a-z_.]+': '`, `^  '([a-z_.]+)'`)
	if len(want) < 10 || !slices.Equal(got, want) {
		t.Errorf("the contract has the events %v, and the console %v", want, got)
	}
}

// This test compares the enums of the contract with the constraints of the database.
func TestTheContractAndTheDatabaseHaveTheSameEnums(t *testing.T) {
	b := apptest.New(t)
	doc := schemasOf(t)
	for constraint, schema := range map[string]string{
		"alert_rules_level_known": "AlertLevel", "batches_status_known": "BatchStatus", "users_role_known": "Role",
	} {
		text := apptest.Scan[string](b, "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = '"+constraint+"'")
		var stored []string
		for _, value := range regexp.MustCompile(`'([^']*)'::text`).FindAllStringSubmatch(text, -1) {
			stored = append(stored, value[1])
		}
		slices.Sort(stored)
		if want := enumOf(doc, schema); len(want) == 0 || !slices.Equal(stored, want) {
			t.Errorf("%s has %v, and the schema %s %v", constraint, stored, schema, want)
		}
	}
}

func TestTheContractDescribesEveryDriver(t *testing.T) {
	t.Parallel()
	kind := schemasOf(t).Components.Schemas["SenderKind"].Value
	configs, _ := kind.Extensions["x-lksms-config"].(map[string]any)
	if got := slices.Sorted(maps.Keys(configs)); !slices.Equal(got, driver.Kinds()) {
		t.Errorf("x-lksms-config has %v, want %v", got, driver.Kinds())
	}
	page, err := os.ReadFile("../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range driver.Kinds() {
		heading := regexp.MustCompile(`(?m)^### (?:.*[ ,])?` + regexp.QuoteMeta(name) + `(?:[ ,].*)?$`)
		if !strings.Contains(kind.Description, "`"+name+"`") || !heading.Match(page) {
			t.Errorf("the driver %s is not in the description of SenderKind, or has no section in docs/channels.md", name)
		}
	}
}

func TestTheContractAndTheServerHaveTheSameTaskStates(t *testing.T) {
	b := apptest.New(t)
	infos := apptest.Decode[[]api.StatusInfo](t, b.Expect(200, "", "GET", "/api/v1/admin/task-status-info", nil))
	var codes []string
	for _, info := range infos {
		if info.StatusName == "" || info.Description == "" {
			t.Errorf("the state %d has no text", info.StatusCode)
		}
		codes = append(codes, fmt.Sprint(info.StatusCode))
	}
	if want := enumOf(schemasOf(t), "TaskStatus"); !slices.Equal(codes, want) {
		t.Errorf("task-status-info has %v, want %v", codes, want)
	}
}

// The functions of the SQL inbox read settings themselves, and contain their own defaults. The names of some settings end with the message type.
func TestTheSQLInboxAndTheSettingsHaveTheSameDefaults(t *testing.T) {
	t.Parallel()
	dump, err := os.ReadFile("../../db/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`sql_inbox_setting\('(\w+)'(?: \|\| kind)?, (\d+)\)`).FindAllStringSubmatch(string(dump), -1)
	if len(found) != 5 {
		t.Errorf("the SQL inbox reads %d settings, want 5", len(found))
	}
	for _, one := range found {
		names := []string{one[1]}
		if prefix, isPart := strings.CutSuffix(one[1], "_"); isPart {
			names = []string{prefix + "_verification", prefix + "_notification", prefix + "_marketing"}
		}
		for _, name := range names {
			if !slices.ContainsFunc(setting.Declarations(), func(d setting.Declaration) bool {
				return d.Category == "sms" && d.Name == name && fmt.Sprint(d.Default) == one[2]
			}) {
				t.Errorf("sms.%s has another default than %s, or does not exist", name, one[2])
			}
		}
	}
}
