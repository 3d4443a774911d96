package setting_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/internal/platform/setting"
	"lksms/internal/testkit/apptest"
)

var update = flag.Bool("update", false, "write the declarations of the console")

// declared returns the declarations by category and name.
func declared() map[string]map[string]setting.Declaration {
	all := map[string]map[string]setting.Declaration{}
	for _, d := range setting.Declarations() {
		if all[d.Category] == nil {
			all[d.Category] = map[string]setting.Declaration{}
		}
		all[d.Category][d.Name] = d
	}
	return all
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func TestTheContractContainsEverySettingAndItsBounds(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Settings", "SettingsChange"} {
		all := doc.Components.Schemas[name].Value.Properties
		if got, want := sortedKeys(all), sortedKeys(declared()); !slices.Equal(got, want) {
			t.Errorf("%s has the categories %v, want %v", name, got, want)
		}
		for category, settings := range declared() {
			if all[category] == nil {
				continue
			}
			schemas := all[category].Value.Properties
			if got, want := sortedKeys(schemas), sortedKeys(settings); !slices.Equal(got, want) {
				t.Errorf("%s.%s has the settings %v, want %v", name, category, got, want)
			}
			for setting, d := range settings {
				if schemas[setting] != nil {
					compareBounds(t, d, schemas[setting].Value)
				}
			}
		}
	}
	if got, want := doc.Components.Schemas["Category"].Value.Enum, sortedKeys(declared()); len(got) != len(want) {
		t.Errorf("the schema Category has %v, want %v", got, want)
	}
}

func compareBounds(t *testing.T, d setting.Declaration, s *openapi3.Schema) {
	t.Helper()
	smallest, largest, choices, kind := s.Min, s.Max, []string(nil), "integer"
	switch {
	case d.Kind == "yes":
		kind = "boolean"
	case d.Kind == "choice":
		kind = "string"
		for _, choice := range s.Enum {
			choices = append(choices, fmt.Sprint(choice))
		}
	case d.Kind == "text":
		kind = "string"
		shortest, longest := float64(s.MinLength), float64(*s.MaxLength)
		smallest, largest = &shortest, &longest
	case d.IsFraction:
		kind = "number"
	}
	if !s.Type.Is(kind) || !reflect.DeepEqual(smallest, d.Min) || !reflect.DeepEqual(largest, d.Max) || !slices.Equal(choices, d.Choices) {
		t.Errorf("%s.%s: the contract has other bounds than the declaration %+v", d.Category, d.Name, d)
	}
}

// The console reads the declarations from a file, which -update writes.
func TestTheConsoleContainsEverySettingInBothLanguages(t *testing.T) {
	t.Parallel()
	want, err := json.MarshalIndent(setting.Declarations(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	const file = "../../../web/src/pages/settings/declarations.json"
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("%s is stale (%v): run go test ./internal/platform/setting -update", file, err)
	}
	for _, language := range []string{"en", "zh"} {
		text, err := os.ReadFile("../../../web/src/i18n/" + language + "/settings.ts")
		if err != nil {
			t.Fatal(err)
		}
		for category, settings := range declared() {
			block := regexp.MustCompile(`(?ms)^  ` + category + `: \{\n(.*?)^  \},$`).FindStringSubmatch(string(text))
			if block == nil {
				t.Errorf("%s: the category %s has no texts", language, category)
				continue
			}
			for name := range settings {
				if !strings.Contains(block[1], "    "+name+": { label: '") {
					t.Errorf("%s: the setting %s.%s has no text", language, category, name)
				}
			}
		}
	}
}

// The manual contains each setting with its default and its bounds, in both languages.
func TestTheManualDocumentsEverySetting(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../../docs/settings.md", "../../../docs/zh-CN/settings.md"} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string][]string{} // by name of the setting: the other cells of its row
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z_]+)` \\|(.*)$").FindAllStringSubmatch(string(page), -1) {
			rows[row[1]] = strings.Split(row[2], " |")
		}
		count := 0
		for _, d := range setting.Declarations() {
			name := d.Category + "." + strings.NewReplacer("content_most_", "max_content_", "segments_most_", "max_segments_").Replace(d.Name)
			cells := rows[name]
			if len(cells) < 3 {
				t.Errorf("%s: %s has no row with default, bounds and meaning", file, name)
				continue
			}
			count++
			standard := fmt.Sprintf("`%v`", d.Default)
			if number, isNumber := d.Default.(float64); isNumber {
				standard = "`" + strconv.FormatFloat(number, 'f', -1, 64) + "`"
			}
			if got := strings.TrimSpace(cells[0]); got != standard && d.Default != "" {
				t.Errorf("%s: %s has the default %s, want %s", file, name, got, standard)
			}
			for _, bound := range []*float64{d.Min, d.Max} {
				if bound != nil && !regexp.MustCompile(`\b`+strconv.FormatFloat(*bound, 'f', -1, 64)+`\b`).MatchString(cells[1]) {
					t.Errorf("%s: %s has the bounds %s, without %v", file, name, cells[1], *bound)
				}
			}
			for _, choice := range d.Choices {
				if !strings.Contains(cells[1], "`"+choice+"`") {
					t.Errorf("%s: %s lacks the choice %s", file, name, choice)
				}
			}
		}
		if count != len(rows) {
			t.Errorf("%s has %d settings, want %d", file, len(rows), count)
		}
	}
}

// Every declared setting can be read and stored, alone and with its category. Until it is stored, it has the declared default.
func TestEverySettingCanBeReadAndStored(t *testing.T) {
	b := apptest.New(t)
	for category, settings := range declared() {
		whole := apptest.Decode[map[string]map[string]any](t, b.Expect(200, "", "GET", "/api/v1/admin/settings", nil))[category]
		single := apptest.Decode[map[string]any](t, b.Expect(200, "", "GET", "/api/v1/admin/settings/"+category, nil))
		change := map[string]any{}
		for name, d := range settings {
			want := d.Default
			if d.Name == "retry_max_wait_seconds" { // the server has the value of apptest.DefaultRules
				want = 0.0
			}
			if d.Name == "quiet_hours_marketing" { // test databases have none
				want = ""
			}
			if !reflect.DeepEqual(whole[name], want) || !reflect.DeepEqual(single[name], want) {
				t.Errorf("%s.%s is %v and %v, want %v", category, name, whole[name], single[name], want)
			}
			change[name] = another(d)
		}
		if len(whole) != len(settings) || len(single) != len(settings) {
			t.Errorf("%s has %d and %d settings, want %d", category, len(whole), len(single), len(settings))
		}
		b.Expect(200, "", "PUT", "/api/v1/admin/settings", map[string]any{category: change})
		if got := apptest.Decode[map[string]any](t, b.Expect(200, "", "GET", "/api/v1/admin/settings/"+category, nil)); !reflect.DeepEqual(got, change) {
			t.Errorf("%s is %v after %v was stored", category, got, change)
		}
		for name, d := range settings {
			for _, bad := range outside(d) {
				b.Expect(422, "request.invalid", "PUT", "/api/v1/admin/settings/"+category, map[string]any{name: bad})
			}
		}
	}
}

// another returns an allowed value that differs from the default.
func another(d setting.Declaration) any {
	switch {
	case d.Kind == "yes":
		return d.Default != true
	case d.Kind == "choice":
		return d.Choices[len(d.Choices)-1]
	case d.Name == "time_zone":
		return "Asia/Tokyo"
	case strings.HasPrefix(d.Name, "quiet_hours_"):
		return "22:00-08:00"
	case d.Name == "countries":
		return "DE,ID"
	case d.Name == "tablespace":
		return "pg_default"
	case d.Kind == "text":
		return strings.Repeat("X", int(*d.Max))
	default:
		return *d.Max
	}
}

// outside returns values outside the bounds.
func outside(d setting.Declaration) []any {
	switch d.Kind {
	case "yes", "choice":
		return []any{"perhaps"}
	case "text":
		return []any{strings.Repeat("X", int(*d.Max)+1)}
	default:
		return []any{*d.Min - 1, *d.Max + 1}
	}
}
