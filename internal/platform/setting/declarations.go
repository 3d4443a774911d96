package setting

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Declaration defines the values that a setting can have. The console reads web/src/pages/settings/declarations.json, which a test compares with Declarations.
type Declaration struct {
	Category    string   `json:"category"`
	Name        string   `json:"name"`
	Kind        string   `json:"kind"` // number, seconds, minutes, hours, days, yes, text or choice
	Default     any      `json:"default"`
	Min         *float64 `json:"min,omitempty"` // the minimum of a number, or the minimum length of a text
	Max         *float64 `json:"max,omitempty"`
	Choices     []string `json:"choices,omitempty"`
	ZeroIsNever bool     `json:"zero_is_never,omitempty"`
	IsFraction  bool     `json:"is_fraction,omitempty"` // the number can be a fraction
}

// Declarations returns every setting, in the order of Values. It panics if a tag of a field of Values cannot be parsed.
func Declarations() []Declaration {
	var all []Declaration
	categories := reflect.TypeFor[Values]()
	for i := range categories.NumField() {
		category := categories.Field(i)
		for j := range category.Type.NumField() {
			d := declarationOf(category.Type.Field(j))
			d.Category = category.Tag.Get("json")
			all = append(all, d)
		}
	}
	return all
}

// declarationOf parses the tags of a field.
func declarationOf(field reflect.StructField) Declaration {
	d := Declaration{
		Name: field.Tag.Get("json"), Kind: field.Tag.Get("kind"), Min: bound(field, "min"), Max: bound(field, "max"),
		ZeroIsNever: field.Tag.Get("zero") == "never", IsFraction: field.Type.Kind() == reflect.Float64,
	}
	if choices := field.Tag.Get("choices"); choices != "" {
		d.Choices = strings.Split(choices, ",")
	}
	standard := field.Tag.Get("default")
	if field.Type.Kind() == reflect.String {
		d.Default = standard
	} else if err := json.Unmarshal([]byte(standard), &d.Default); err != nil {
		panic(fmt.Sprintf("setting %s: default %q: %v", d.Name, standard, err))
	}
	return d
}

func bound(field reflect.StructField, tag string) *float64 {
	text, isSet := field.Tag.Lookup(tag)
	if !isSet {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(fmt.Sprintf("setting %s: %s: %v", field.Name, tag, err))
	}
	return &n
}

// defaultValues returns the default of every setting. A default applies until the setting is stored.
func defaultValues() Values {
	k := map[string]map[string]any{}
	for _, d := range Declarations() {
		if k[d.Category] == nil {
			k[d.Category] = map[string]any{}
		}
		k[d.Category][d.Name] = d.Default
	}
	text, err := json.Marshal(k)
	var values Values
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil {
		panic(fmt.Sprintf("defaults of settings: %v", err))
	}
	return values
}
