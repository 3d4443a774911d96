package httpapi_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lksms/internal/platform/config"
	"lksms/internal/testkit/apptest"
	"lksms/internal/transport/httpapi/console"
	"lksms/internal/transport/httpapi/manual"
	"lksms/internal/transport/smsgate/mobile"
	"lksms/internal/transport/smsgate/thirdparty"
)

// A base path must not begin with a path that the server serves. OwnPaths contains the beginnings of all these paths.
func TestOwnPathsContainAllPathsOfTheServer(t *testing.T) {
	b := apptest.New(t)
	var contract struct{ Paths map[string]any }
	if err := json.Unmarshal([]byte(b.Call("GET", "/openapi.json", nil).Raw), &contract); err != nil || len(contract.Paths) < 100 {
		t.Fatalf("%d paths, %v", len(contract.Paths), err)
	}
	all := []string{console.Prefix, manual.Prefix, mobile.Prefix, thirdparty.Prefix, "/metrics", "/cgi-bin/sendsms", "/openapi.json", "/openapi.yaml"}
	for path := range contract.Paths {
		all = append(all, path)
	}
	for _, path := range all {
		if !slices.ContainsFunc(config.OwnPaths, func(own string) bool { return path == own || strings.HasPrefix(path, own+"/") }) {
			t.Errorf("config.OwnPaths does not contain the beginning of %s", path)
		}
	}
}
