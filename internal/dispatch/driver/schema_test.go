package driver_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lksms/gen/api"
	"lksms/internal/dispatch/callback"
	"lksms/internal/dispatch/driver"
	"lksms/internal/platform/outbound"
)

// configSchema is the part of a JSON schema that the API contract uses for configurations.
type configSchema struct {
	Type       string                  `json:"type"`
	Required   []string                `json:"required"`
	Properties map[string]configSchema `json:"properties"`
	WriteOnly  bool                    `json:"writeOnly"`
}

// The console builds the forms of senders from the contract.
func TestContractDescribesEveryDriverConfiguration(t *testing.T) {
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec.Components.Schemas["SenderKind"].Value.Extensions["x-lksms-config"])
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]configSchema{}
	if err := json.Unmarshal(text, &schemas); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"aliyun-sms": "aliyun.go", "tencent-sms": "tencent.go", "cmpp": "carrier/cmpp_config.go", "dingtalk": "dingtalk.go", "email": "email.go", "http-sms": "httpsms.go", "log": "log.go", "oa": "oa.go", "smpp": "carrier/smpp_config.go", "wechat": "wechat.go"}
	for _, kind := range driver.Kinds() {
		schema := schemas[kind]
		var inContract, secrets []string
		for name, property := range schema.Properties {
			if name != callback.Field && name != callback.Secret {
				inContract = append(inContract, name)
			}
			if property.WriteOnly && name != callback.Secret {
				secrets = append(secrets, name)
			}
		}
		slices.Sort(inContract)
		if want := fieldsIn(t, files[kind]); !slices.Equal(inContract, want) {
			t.Errorf("%s: the contract has %v, the driver %v", kind, inContract, want)
		}
		if want := driver.Secrets(kind); !slices.Equal(secrets, want) {
			t.Errorf("%s: the contract hides %v, the driver %v", kind, secrets, want)
		}
		if _, err := tryDriver(kind, map[string]any{}, outbound.Policy{}); (err != nil) != (len(schema.Required) > 0) {
			t.Errorf("%s: required are %v, and without any: %v", kind, schema.Required, err)
		}
	}
	if len(schemas) != len(files) {
		t.Errorf("%d kinds in the contract", len(schemas))
	}
}

// fieldsIn returns the field names of the struct config in the file of a driver.
func fieldsIn(t *testing.T, file string) []string {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, config, isNested := strings.Cut(string(source), "config struct {")
	if !isNested {
		_, config, _ = strings.Cut(string(source), "Config struct {")
	}
	config = regexp.MustCompile(`(?s)^.*?\n\t?}\n`).FindString(config)
	var names []string
	for _, found := range regexp.MustCompile("`json:\"(\\w+)\"`").FindAllStringSubmatch(config, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return names
}
