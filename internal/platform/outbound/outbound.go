// Package outbound owns connections to addresses that administrators or users configured. It refuses addresses that must not be reachable through the service,
// and limits the size of answers.
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"lksms/internal/platform/bom"
)

// Policy defines which addresses connections can reach. Link-local and metadata addresses are always refused.
type Policy struct {
	Allow []netip.Prefix // if not empty, only these networks are allowed
	Deny  []netip.Prefix

	isPublic bool // only addresses of the public Internet are allowed
}

// Public returns the policy for addresses that users without administrator rights configured: p, restricted to the public Internet.
func (p Policy) Public() Policy {
	p.isPublic = true
	return p
}

// Networks parses addresses and networks. A single address becomes a network of one address. IPv4 addresses in IPv6 notation (::ffff:10.0.0.0/104) become IPv4
// networks, because Contains compares IPv4 addresses.
func Networks(texts []string) ([]netip.Prefix, error) {
	all := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			var address netip.Addr
			if address, err = netip.ParseAddr(text); err == nil {
				network = netip.PrefixFrom(address, address.BitLen())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network", text)
		}
		all = append(all, unmap(network.Masked()))
	}
	return all, nil
}

// mappedBits is the number of bits before the IPv4 address in an IPv6 address of the form ::ffff:10.0.0.1.
const mappedBits = 96

// unmap converts a masked network of IPv4 addresses in IPv6 notation to an IPv4 network.
func unmap(network netip.Prefix) netip.Prefix {
	if address := network.Addr(); address.Is4In6() && network.Bits() >= mappedBits {
		return netip.PrefixFrom(address.Unmap(), network.Bits()-mappedBits)
	}
	return network
}

// Contains reports whether one of the networks contains an address, in any of its forms.
func Contains(networks []netip.Prefix, address netip.Addr) bool {
	return within(networks, address.Unmap().WithZone(""))
}

// NetworkOf returns the network for which limits count the calls of an address. For an IPv6 address, this is its /64 network, because a host can choose any
// address in its /64 network. For any other address, this is the address itself.
func NetworkOf(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		if network, err := ip.WithZone("").Prefix(64); err == nil {
			return network.String()
		}
	}
	return address
}

// ErrRefused is the error of a connection that the policy forbids.
var ErrRefused = errors.New("the address is not allowed")

// ErrTooLarge is the error of an answer that is longer than maxAnswer.
var ErrTooLarge = errors.New("the answer is too large")

// maxAnswer is the maximum size of an answer in bytes.
const maxAnswer = 1 << 20

// metadata lists the metadata addresses of clouds that are not link-local. A metadata address serves the secrets of a machine.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
}

// nat64 is a network whose addresses contain an IPv4 address in their last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// special lists the IPv4 networks that do not belong to the public Internet (RFC 6890).
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)

// global is the public part of IPv6. special6 lists its networks that are not public: protocol and documentation addresses, and tunnels, whose addresses can
// contain any IPv4 address.
var (
	global   = netip.MustParsePrefix("2000::/3")
	special6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// isPublic reports whether an address belongs to the public Internet. addr must be unmapped and without a zone.
func isPublic(addr netip.Addr) bool {
	if addr.Is4() {
		return !within(special, addr)
	}
	return global.Contains(addr) && !within(special6, addr)
}

// Permits reports whether a connection to addr is allowed.
func (p Policy) Permits(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	if addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
		return false
	}
	for _, m := range metadata {
		if addr == m {
			return false
		}
	}
	if p.isPublic && !isPublic(addr) {
		return false
	}
	return !within(p.Deny, addr) && (len(p.Allow) == 0 || within(p.Allow, addr))
}

// numeric matches the last label of a host that is an address, not a name (WHATWG URL, "ends in a number").
var numeric = regexp.MustCompile(`^([0-9]+|0[xX][0-9a-fA-F]*)$`)

// AddressOf parses a host that is an address. isAddress is false if host is a name. addr is invalid if programs disagree about the address, for example 127.1
// or 0x7f000001.
func AddressOf(host string) (addr netip.Addr, isAddress bool) {
	host = strings.TrimSuffix(host, ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr, true
	}
	return netip.Addr{}, numeric.MatchString(host[strings.LastIndexByte(host, '.')+1:])
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// Dial connects like net.Dialer. It checks the resolved address, so that the address of a name cannot change between the check and the connection.
func (p Policy) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		Timeout: 10 * time.Second,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("read address: %w", err)
			}
			if !p.Permits(to.Addr()) {
				return ErrRefused
			}
			return nil
		},
	}
	return d.DialContext(ctx, network, address)
}

// Client returns an HTTP client that obeys the policy. A request takes at most limit. The client does not follow redirects: it returns the redirect as the
// answer.
func (p Policy) Client(limit time.Duration) *http.Client {
	return &http.Client{
		Timeout: limit,
		Transport: &http.Transport{
			DialContext: p.Dial, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: limit,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ErrUnclear is the error of a request that the receiver possibly processed: a connection was open, but no complete answer arrived.
var ErrUnclear = errors.New("no complete answer")

// Do sends a request and returns the whole answer as UTF-8. An answer longer than maxAnswer bytes is an error. The status is 0 if no answer arrived.
func Do(client *http.Client, req *http.Request) (status int, body []byte, err error) {
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	res, err := client.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace))) //nolint:gosec // the policy checks every address
	if err != nil {
		if connected.Load() {
			err = errors.Join(ErrUnclear, err)
		}
		return 0, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // an error is ignored, because the body was read or is not needed
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = ErrTooLarge
	}
	if err != nil {
		err = errors.Join(ErrUnclear, err)
	}
	return res.StatusCode, bom.Decode(body), err
}

// DialTLS connects like Dial and performs the TLS handshake with a server called name. roots are the trusted certificates; nil: those of the system.
func (p Policy) DialTLS(name string, roots *x509.CertPool) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := p.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secured := tls.Client(conn, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12, RootCAs: roots})
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("TLS handshake: %w", err), conn.Close())
		}
		return secured, nil
	}
}
