package outbound

import (
	"net/netip"
	"testing"
)

func TestNetworksOfIPv4AddressesCanBeWrittenAsIPv6(t *testing.T) {
	t.Parallel()
	networks, err := Networks([]string{"::ffff:127.0.0.0/104", "::ffff:10.1.2.3", "::ffff:192.168.1.77/120", "::ffff:a00:0/128", "2001:db8::/32"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"127.9.9.9": true, "::ffff:127.0.0.1": true, "10.1.2.3": true, "10.1.2.4": false, "192.168.1.1": true, "192.168.2.1": false, "10.0.0.0": true,
		"2001:db8::1": true, "2001:db9::1": false, "128.0.0.1": false,
	} {
		if got := Contains(networks, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is in %v: %v, want %v", address, networks, got, want)
		}
		if got := (Policy{Deny: networks}).Permits(netip.MustParseAddr(address)); got == want {
			t.Errorf("the policy that denies %v permits %s: %v", networks, address, got)
		}
	}
}
