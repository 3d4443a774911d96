package outbound

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// B13: addresses of users without administrator rights are reachable only on the public Internet, even if the configuration allows other networks.
func TestThePublicPolicyRefusesAddressesOutsideThePublicInternet(t *testing.T) {
	t.Parallel()
	wide := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	for _, refused := range []string{
		"127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "0.1.2.3", "::", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255",
		"169.254.169.254", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "::ffff:10.0.0.1",
		"::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001::1", "2001:db8::1",
		"224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "ff02::1", "fec0::1", "3fff::1",
	} {
		for name, p := range map[string]Policy{"any": {}, "wide": wide} {
			if p.Public().Permits(netip.MustParseAddr(refused)) {
				t.Errorf("%s is permitted by the public form of %s", refused, name)
			}
		}
	}
	for _, permitted := range []string{"8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "172.15.0.1", "::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"} {
		if !(Policy{}).Public().Permits(netip.MustParseAddr(permitted)) {
			t.Errorf("%s is refused", permitted)
		}
	}
	deny := Policy{Deny: []netip.Prefix{netip.MustParsePrefix("8.8.8.0/24")}}
	if deny.Public().Permits(netip.MustParseAddr("8.8.8.8")) {
		t.Error("the public form permits what is denied")
	}
	if !(Policy{}).Permits(netip.MustParseAddr("127.0.0.1")) {
		t.Error("the policy of administrators refuses loopback")
	}
}

// B13: the policy checks the address to which a name resolves.
func TestThePublicPolicyChecksTheResolvedAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if conn, err := (Policy{}).Public().Dial(t.Context(), "tcp", net.JoinHostPort("localhost", port)); !errors.Is(err, ErrRefused) {
		t.Errorf("connected %v, %v", conn, err)
	}
}
