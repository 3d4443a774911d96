package carrier

import (
	"strings"
	"unicode"

	"lksms/internal/dispatch/driver/provider"
	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/smpp"
)

// These are types of numbers and numbering plans (sections 5.2.5 and 5.2.6 of SMPP 3.4).
const (
	tonInternational, tonName = smpp.International, smpp.Name
	npiISDN, npiNone          = 1, 0
)

// isName reports whether a source address is a name, not a number.
func isName(address string) bool {
	return strings.ContainsFunc(address, func(r rune) bool { return !unicode.IsDigit(r) && r != '+' })
}

// isSourceName reports whether a name can be a source address.
func isSourceName(name string) bool { return name != "" && len(name) <= maxName && isPrintable(name) }

// isPrintable reports whether a text consists of printable ASCII characters.
func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// octet returns a configured number, which readMessages has checked, or else a default.
func octet(configured *int, otherwise uint8) uint8 {
	if configured == nil {
		return otherwise
	}
	return uint8(*configured)
}

// noSource is the outcome of a message whose signature cannot be its source address.
var noSource = provider.Outcome{
	Permanent: true, Unasked: true, Code: "no_source_addr", Error: "the signature cannot be a source address: it needs 1 to 11 ASCII characters",
}

// parts takes the signature out of the text if it is the source address.
func (p *smppProtocol) parts(m provider.Message, reference uint16) ([]*smpp.PDU, *provider.Outcome) {
	source, text := p.config.SourceAddr, m.Content
	if source == sign {
		source, text = m.Sign, segment.Unsigned(m.Sign, text)
		if !isSourceName(source) {
			return nil, &noSource
		}
	}
	ton, npi := uint8(tonInternational), uint8(npiISDN)
	if isName(source) {
		ton, npi = tonName, npiNone
	}
	if source == "" {
		ton, npi = 0, 0
	}
	one := smpp.Message{
		ServiceType: p.config.ServiceType,
		Source: smpp.Address{
			TON: octet(p.config.SourceTON, ton), NPI: octet(p.config.SourceNPI, npi), Number: strings.TrimPrefix(source, "+"),
		},
		Dest: smpp.Address{
			TON: octet(p.config.DestTON, tonInternational), NPI: octet(p.config.DestNPI, npiISDN), Number: strings.TrimPrefix(m.Recipient, "+"),
		},
		RegisteredDelivery: octet(p.config.RegisteredDelivery, 1),
		TLVs:               p.tlvs,
	}
	if !m.ValidUntil.IsZero() {
		one.Validity = m.ValidUntil.UTC().Format("060102150405") + "000+"
	}
	messages, err := p.style.Messages(one, text, reference)
	if err != nil {
		return nil, &tooLong
	}
	all := make([]*smpp.PDU, len(messages))
	for i, message := range messages {
		all[i] = &smpp.PDU{Command: smpp.SubmitSM, Body: message}
	}
	return all, nil
}
