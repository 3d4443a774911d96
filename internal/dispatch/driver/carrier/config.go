package carrier

import (
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/internal/platform/fault"
)

// settings are the values of a configuration that all protocols use.
type settings struct {
	hosts          []string       // with ports
	tls            bool           // the connection is encrypted
	roots          *x509.CertPool // nil: those of the system
	binds, window  int
	perSecond      float64 // 0: no limit
	test, response time.Duration
}

// These are the limits and defaults of numbers in a configuration.
const (
	maxBinds, maxWindow, maxPerSecond, maxSeconds = 32, 1000, 10000, 600
	defaultTest, defaultResponse                  = 30, 10
)

func invalid(field string, rule fault.Rule, limit any) error {
	return fault.InvalidField("config."+field, rule, limit)
}

// readHosts returns the addresses of `hosts`, or else of `host`. Those without a port get `port`, or else defaultPort.
func readHosts(host string, hosts []string, port int, defaultPort string) ([]string, error) {
	switch {
	case host != "" && len(hosts) > 0:
		return nil, invalid("hosts", fault.NotTogether, "host")
	case host == "" && len(hosts) == 0:
		return nil, invalid("host", fault.Required, nil)
	case port < 0:
		return nil, invalid("port", fault.TooSmall, 0)
	case port > math.MaxUint16:
		return nil, invalid("port", fault.TooBig, math.MaxUint16)
	}
	fields := []string{"host"}
	if len(hosts) > 0 {
		fields = nil
		for i := range hosts {
			fields = append(fields, "hosts."+strconv.Itoa(i))
		}
	} else {
		hosts = []string{host}
	}
	if port > 0 {
		defaultPort = strconv.Itoa(port)
	}
	var addresses []string
	for i, host := range hosts {
		address, isHost := addressOf(host, defaultPort)
		if !isHost {
			return nil, invalid(fields[i], fault.WrongFormat, nil)
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// addressOf returns the address of a host, with the default port if the host has none.
func addressOf(host, defaultPort string) (address string, isHost bool) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), defaultPort
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return net.JoinHostPort(strings.ToLower(name), port), err == nil && name != "" && !strings.ContainsAny(name, "/@ ")
}

// number is a number in a configuration.
type number struct {
	name       string
	value, max float64
}

// readNumbers returns the settings that are numbers. test and response are in seconds. 0 means the default.
func readNumbers(binds, window, defaultWindow int, perSecond float64, test, response number) (settings, error) {
	test.max, response.max = maxSeconds, maxSeconds
	for _, n := range []number{
		{"binds", float64(binds), maxBinds}, {"window", float64(window), maxWindow}, {"per_second", perSecond, maxPerSecond}, test, response,
	} {
		if n.value < 0 {
			return settings{}, invalid(n.name, fault.TooSmall, 0)
		}
		if n.value > n.max {
			return settings{}, invalid(n.name, fault.TooBig, int(n.max))
		}
	}
	seconds := func(value, otherwise float64) time.Duration {
		if value == 0 {
			value = otherwise
		}
		return time.Duration(value * float64(time.Second))
	}
	s := settings{binds: max(binds, 1), window: window, perSecond: perSecond, test: seconds(test.value, defaultTest), response: seconds(response.value, defaultResponse)}
	if window == 0 {
		s.window = defaultWindow
	}
	return s, nil
}

// text is a text in a configuration, with its greatest length in octets.
type text struct {
	name, value string
	max         int
}

// readTexts checks texts.
func readTexts(texts []text) error {
	for _, t := range texts {
		if len(t.value) > t.max {
			return invalid(t.name, fault.TooLong, t.max)
		}
		if strings.ContainsRune(t.value, 0) {
			return invalid(t.name, fault.BadCharacters, nil)
		}
	}
	return nil
}

// choice is a field with a list of values. An empty value means otherwise.
type choice struct {
	name      string
	value     *string
	otherwise string
	all       []string
}

// readChoices sets the defaults of choices, and checks their values.
func readChoices(choices []choice) error {
	for _, c := range choices {
		if *c.value == "" {
			*c.value = c.otherwise
		}
		if !slices.Contains(c.all, *c.value) {
			return invalid(c.name, fault.NotAllowed, c.all)
		}
	}
	return nil
}

// namesOf returns the names of values.
func namesOf[T fmt.Stringer](values ...T) []string {
	names := make([]string, len(values))
	for i, value := range values {
		names[i] = value.String()
	}
	return names
}
