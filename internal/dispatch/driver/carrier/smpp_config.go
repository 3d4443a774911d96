package carrier

import (
	"crypto/x509"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"lksms/internal/platform/fault"
	"lksms/internal/platform/smpp"
)

// SMPPConfig is the configuration of a sender of the kind smpp.
type SMPPConfig struct {
	Host               string            `json:"host"`
	Hosts              []string          `json:"hosts"` // instead of host: tried one after the other
	Port               int               `json:"port"`  // of hosts without a port; 0: 2775, or 3550 with tls
	TLS                bool              `json:"tls"`
	TLSCA              string            `json:"tls_ca"` // certificates in PEM that replace those of the system
	SystemID           string            `json:"system_id"`
	Password           string            `json:"password"`
	SystemType         string            `json:"system_type"`
	Bind               string            `json:"bind"`                 // transceiver (default) or transmitter_receiver
	Binds              int               `json:"binds"`                // links; 0: 1
	Window             int               `json:"window"`               // messages without an answer on each link; 0: 10
	PerSecond          float64           `json:"per_second"`           // messages on all links together; 0: no limit
	EnquireLinkSeconds float64           `json:"enquire_link_seconds"` // 0: 30
	ResponseSeconds    float64           `json:"response_seconds"`     // 0: 10
	SourceAddr         string            `json:"source_addr"`          // ${sign}: the signature of the message
	SourceTON          *int              `json:"source_ton"`           // null: 5 for a name, otherwise 1
	SourceNPI          *int              `json:"source_npi"`           // null: 0 for a name, otherwise 1
	DestTON            *int              `json:"dest_ton"`             // null: 1
	DestNPI            *int              `json:"dest_npi"`             // null: 1
	DataCoding         string            `json:"data_coding"`          // a key of styles; empty: gsm7
	LongMessages       string            `json:"long_messages"`        // a form of smpp.ParseLongForm; empty: udh8
	RegisteredDelivery *int              `json:"registered_delivery"`  // null: 1
	ServiceType        string            `json:"service_type"`
	TLVs               map[string]string `json:"tlvs"`        // by tag, for example 0x1400; a value after 0x is hexadecimal
	Statuses           map[string]string `json:"statuses"`    // judgements by status; the others are judged by judgements
	MessageIDs         string            `json:"message_ids"` // a form of smpp.ParseIDForm; empty: auto
}

// These are the values of SMPPConfig.Bind.
const (
	transceiver         = "transceiver"
	transmitterReceiver = "transmitter_receiver"
)

// styles contains the alphabets of data_coding 0, by their names in SMPPConfig.DataCoding.
var styles = map[string]smpp.TextStyle{
	"gsm7": {}, "gsm7_packed": {Default: smpp.GSM7Packed}, "gsm7_latin1": {Latin1: true}, "latin1": {Default: smpp.Latin1}, "ascii": {Default: smpp.ASCII},
}

// These are the defaults of numbers in an SMPPConfig.
const (
	defaultSMPPWindow   = 10
	smppPort, smppsPort = "2775", "3550"
)

// sign is the placeholder of the signature in SMPPConfig.SourceAddr.
const sign = "${sign}"

// readSMPP checks a configuration, sets its defaults, and returns the protocol with these settings. A fault names the wrong field.
func readSMPP(config SMPPConfig) (*smppProtocol, error) {
	p := &smppProtocol{config: config}
	for _, check := range []func() error{p.readSettings, p.readChoices, p.readMessages} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	var err error
	p.judged, err = readStatuses(p.judgements(), config.Statuses, smpp.ParseStatus)
	return p, err
}

func (p *smppProtocol) readSettings() (err error) {
	c := p.config
	p.settings, err = readNumbers(c.Binds, c.Window, defaultSMPPWindow, c.PerSecond,
		number{name: "enquire_link_seconds", value: c.EnquireLinkSeconds}, number{name: "response_seconds", value: c.ResponseSeconds})
	if err != nil {
		return err
	}
	port := smppPort
	if c.TLS {
		port = smppsPort
	}
	p.settings.tls = c.TLS
	if p.settings.hosts, err = readHosts(c.Host, c.Hosts, c.Port, port); err != nil {
		return err
	}
	switch {
	case c.SystemID == "":
		return invalid("system_id", fault.Required, nil)
	case c.TLSCA == "":
		return nil
	case !c.TLS:
		return invalid("tls_ca", fault.OnlyTogether, "tls")
	}
	if p.settings.roots = x509.NewCertPool(); !p.settings.roots.AppendCertsFromPEM([]byte(c.TLSCA)) {
		return invalid("tls_ca", fault.WrongFormat, nil)
	}
	return nil
}

func (p *smppProtocol) readChoices() error {
	c := &p.config
	err := readChoices([]choice{
		{"bind", &c.Bind, transceiver, []string{transceiver, transmitterReceiver}},
		{"data_coding", &c.DataCoding, "gsm7", slices.Sorted(maps.Keys(styles))},
		{"long_messages", &c.LongMessages, smpp.UDH8.String(), namesOf(smpp.UDH8, smpp.UDH16, smpp.SAR, smpp.Payload)},
		{"message_ids", &c.MessageIDs, smpp.FormAuto.String(), namesOf(smpp.FormAuto, smpp.FormSame, smpp.FormHexDec, smpp.FormDecHex)},
	})
	p.style = styles[c.DataCoding]
	p.style.Long, _ = smpp.ParseLongForm(c.LongMessages) // with err, the protocol is not used
	p.ids, _ = smpp.ParseIDForm(c.MessageIDs)
	return err
}

// These are the maximum lengths of source addresses: names, and numbers without +.
const maxName, maxNumber = 11, 20

func (p *smppProtocol) readMessages() error {
	c := p.config
	if err := readTexts([]text{
		{"system_id", c.SystemID, smpp.MaxText}, {"password", c.Password, smpp.MaxText}, {"system_type", c.SystemType, smpp.MaxText},
		{"service_type", c.ServiceType, smpp.MaxText}, {"source_addr", c.SourceAddr, smpp.MaxText},
	}); err != nil {
		return err
	}
	switch a := c.SourceAddr; {
	case a == sign:
	case !isPrintable(a):
		return invalid("source_addr", fault.BadCharacters, nil)
	case isName(a) && len(a) > maxName:
		return invalid("source_addr", fault.TooLong, maxName)
	case len(strings.TrimPrefix(a, "+")) > maxNumber:
		return invalid("source_addr", fault.TooLong, maxNumber)
	}
	for name, octet := range map[string]*int{
		"source_ton": c.SourceTON, "source_npi": c.SourceNPI, "dest_ton": c.DestTON, "dest_npi": c.DestNPI, "registered_delivery": c.RegisteredDelivery,
	} {
		if octet != nil && *octet < 0 {
			return invalid(name, fault.TooSmall, 0)
		}
		if octet != nil && *octet > math.MaxUint8 {
			return invalid(name, fault.TooBig, math.MaxUint8)
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(c.TLVs)) {
		number, err := strconv.ParseUint(tag, 0, 16)
		if err != nil {
			return invalid("tlvs."+tag, fault.WrongFormat, nil)
		}
		value := []byte(c.TLVs[tag])
		if digits, isHex := strings.CutPrefix(c.TLVs[tag], "0x"); isHex {
			if value, err = hex.DecodeString(digits); err != nil {
				return invalid("tlvs."+tag, fault.WrongFormat, nil)
			}
		}
		p.tlvs.Add(smpp.Tag(number), value)
	}
	return nil
}
