package app_test

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	yaml "github.com/oasdiff/yaml3"

	"lksms/internal/platform/servers"
)

// container is a service of compose.yaml.
type container struct {
	Build       string
	Profiles    []string
	Environment map[string]string
	Volumes     []string
	DependsOn   any `yaml:"depends_on"`
	Healthcheck any
	Secrets     []string
}

// readDeploy returns the content of a file in the repository.
func readDeploy(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func parseDeploy(t *testing.T, path string, to any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readDeploy(t, path)), to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// containersOf returns all services of compose.yaml. It also returns the roles of the services that run LKSMS with the profile roles.
func containersOf(t *testing.T) (all map[string]container, roles map[string]servers.Roles) {
	t.Helper()
	var compose struct{ Services map[string]container }
	parseDeploy(t, "compose.yaml", &compose)
	// The documented commands set the role of the first container.
	var documented []string
	for _, path := range []string{"compose.yaml", "docs/operations.md"} {
		found := regexp.MustCompile(`ROLES=(\S+) TRUSTED_PROXIES=\S+ docker compose --profile roles up`).FindStringSubmatch(readDeploy(t, path))
		if found == nil {
			t.Fatalf("%s has no command for the profile roles", path)
		}
		documented = append(documented, found[1])
	}
	if documented[0] != documented[1] {
		t.Errorf("the commands for the profile roles differ: %v", documented)
	}
	roles = map[string]servers.Roles{}
	for name, one := range compose.Services {
		if one.Build == "" {
			continue
		}
		names := strings.Replace(one.Environment["ROLES"], "${ROLES:-}", documented[0], 1)
		parsed, err := servers.ParseRoles(strings.Split(names, ","))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		roles[name] = parsed
	}
	return compose.Services, roles
}

func TestTheContainersTogetherHaveAllRoles(t *testing.T) {
	t.Parallel()
	all, roles := containersOf(t)
	for _, role := range servers.All() {
		if !slices.ContainsFunc(slices.Collect(maps.Values(roles)), func(some servers.Roles) bool { return some.Has(role) }) {
			t.Errorf("no container has the role %s", role)
		}
	}
	for name := range roles {
		one := all[name]
		if want := name == "lksms"; want != (one.Profiles == nil) || !want && !slices.Equal(one.Profiles, []string{"roles"}) {
			t.Errorf("%s has the profiles %v", name, one.Profiles)
		}
		for key, value := range all["lksms"].Environment { // all containers use the same database and settings
			if got := one.Environment[key]; got != value && key != "ROLES" {
				t.Errorf("%s: %s is %q, of lksms %q", name, key, got, value)
			}
		}
		if one.Healthcheck != nil {
			t.Errorf("%s replaces the health check of the image", name)
		}
	}
	if !regexp.MustCompile(`(?m)^HEALTHCHECK .*CMD \["/lksms", "health"\]$`).MatchString(readDeploy(t, "Dockerfile")) {
		t.Error("the image has no health check")
	}
}

func TestContainersNeedOnlyExistingServicesAndFiles(t *testing.T) {
	t.Parallel()
	all, _ := containersOf(t)
	for name, one := range all {
		needs := map[string]bool{}
		switch on := one.DependsOn.(type) {
		case []any:
			for _, other := range on {
				needs[other.(string)] = true
			}
		case map[string]any:
			for other := range on {
				needs[other] = true
			}
		}
		for other := range needs {
			if _, exists := all[other]; !exists {
				t.Errorf("%s depends on %s, which does not exist", name, other)
			}
		}
		for _, volume := range one.Volumes {
			path, isFile := strings.CutPrefix(volume, "./")
			path, _, _ = strings.Cut(path, ":")
			if _, err := fs.Stat(os.DirFS("../.."), path); isFile && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestTheProxyForwardsToContainersWithTheRole(t *testing.T) {
	t.Parallel()
	_, roles := containersOf(t)
	config := readDeploy(t, "deploy/haproxy/roles.cfg")
	backends := regexp.MustCompile(`(?ms)^backend (\w+)\n(.*?)(?:\n\n|\z)`).FindAllStringSubmatch(config, -1)
	if len(backends) != 5 {
		t.Fatalf("%d backends", len(backends))
	}
	for _, backend := range backends {
		role, lines := servers.Role(backend[1]), backend[2]
		if !strings.Contains(lines, "httpchk GET /ready?role="+string(role)+"\n") {
			t.Errorf("the health check of the backend %s does not name its role", role)
		}
		found := regexp.MustCompile(`(?m)^ +server \S+ ([^:\s]+):(\d+)`).FindAllStringSubmatch(lines, -1)
		if found == nil {
			t.Errorf("the backend %s has no server", role)
		}
		for _, server := range found {
			port := "8000"
			if role == servers.SMPP {
				port = "2775"
			}
			if !roles[server[1]].Has(role) || server[2] != port {
				t.Errorf("the backend %s leads to %s, port %s, with the roles %s", role, server[1], server[2], roles[server[1]])
			}
		}
	}
	for _, used := range regexp.MustCompile(`(?:use|default)_backend (\w+)`).FindAllStringSubmatch(config, -1) {
		if !slices.ContainsFunc(backends, func(backend []string) bool { return backend[1] == used[1] }) {
			t.Errorf("the backend %s does not exist", used[1])
		}
	}
}

func TestPrometheusScrapesEachContainer(t *testing.T) {
	t.Parallel()
	all, roles := containersOf(t)
	var prometheus struct {
		ScrapeConfigs []struct {
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
			DNS           []struct {
				Names []string
				Port  int
			} `yaml:"dns_sd_configs"`
			Authorization struct {
				File string `yaml:"credentials_file"`
			}
		} `yaml:"scrape_configs"`
	}
	parseDeploy(t, "deploy/compose/prometheus.yaml", &prometheus)
	var names []string
	for _, scrape := range prometheus.ScrapeConfigs {
		for _, static := range scrape.StaticConfigs {
			for _, target := range static.Targets {
				name, port, _ := strings.Cut(target, ":")
				if port != "8000" || all[name].Profiles != nil {
					t.Errorf("the target %s is not always there", target)
				}
				names = append(names, name)
			}
		}
		for _, lookup := range scrape.DNS {
			if lookup.Port != 8000 {
				t.Errorf("the targets %v have the port %d", lookup.Names, lookup.Port)
			}
			names = append(names, lookup.Names...)
		}
		if secret, isSecret := strings.CutPrefix(scrape.Authorization.File, "/run/secrets/"); !isSecret || !slices.Contains(all["prometheus"].Secrets, secret) {
			t.Errorf("Prometheus has no %s", scrape.Authorization.File)
		}
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(roles)); !slices.Equal(names, want) {
		t.Errorf("Prometheus reads %v, the containers are %v", names, want)
	}
}
