package cmpp

import (
	"crypto/md5" //nolint:gosec // the protocol demands MD5
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"time"
)

// Timestamp is the time of a Connect as the decimal number MMDDHHMMSS.
type Timestamp uint32

// NewTimestamp returns the timestamp of a time, in the zone of the time. Gateways compare it with the local time in China.
func NewTimestamp(t time.Time) Timestamp {
	n := int(t.Month())
	for _, part := range []int{t.Day(), t.Hour(), t.Minute(), t.Second()} {
		n = n*100 + part
	}
	return Timestamp(n)
}

// String returns the ten digits of the timestamp. The digest contains them, so a month below ten has a zero before it.
func (t Timestamp) String() string { return fmt.Sprintf("%010d", uint32(t)) }

// NewConnect returns the Connect of an SP with its AuthenticatorSource (7.4.1.1).
func NewConnect(source, secret string, version Version, timestamp Timestamp) *Connect {
	p := &Connect{SourceAddr: source, Version: version, Timestamp: timestamp}
	p.Authenticator = p.authenticator(secret)
	return p
}

// IsAuthentic reports whether the SP knows the secret.
func (p *Connect) IsAuthentic(secret string) bool {
	want := p.authenticator(secret)
	return subtle.ConstantTimeCompare(want[:], p.Authenticator[:]) == 1
}

func (p *Connect) authenticator(secret string) [16]byte {
	octets := append([]byte(p.SourceAddr), make([]byte, 9)...)
	octets = append(octets, secret...)
	octets = append(octets, p.Timestamp.String()...)
	return md5.Sum(octets) //nolint:gosec // the protocol demands MD5
}

// NewConnectResp returns the response of an ISMG to a Connect with its AuthenticatorISMG (7.4.1.2). version is the highest version that the ISMG speaks.
func NewConnectResp(request *Connect, status ConnectStatus, secret string, version Version) *ConnectResp {
	p := &ConnectResp{Status: status, Version: version}
	p.Authenticator = p.authenticator(request, secret, request.Version)
	return p
}

// IsAuthentic reports whether the ISMG knows the secret of a Connect. A digest over a Status of one octet and over a Status of four octets is accepted in both
// versions: gateways differ.
func (p *ConnectResp) IsAuthentic(request *Connect, secret string) bool {
	v2, v3 := p.authenticator(request, secret, V20), p.authenticator(request, secret, V30)
	return subtle.ConstantTimeCompare(v2[:], p.Authenticator[:])|subtle.ConstantTimeCompare(v3[:], p.Authenticator[:]) == 1
}

func (p *ConnectResp) authenticator(request *Connect, secret string, version Version) [16]byte {
	octets := []byte{byte(p.Status)}
	if version.isV3() {
		octets = binary.BigEndian.AppendUint32(nil, uint32(p.Status))
	}
	octets = append(octets, request.Authenticator[:]...)
	octets = append(octets, secret...)
	return md5.Sum(octets) //nolint:gosec // the protocol demands MD5
}
