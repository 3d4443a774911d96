package carrier

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"lksms/internal/platform/characters"
	"lksms/internal/platform/cmpp"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
)

// CMPPConfig is the configuration of a sender of the kind cmpp.
type CMPPConfig struct {
	Host               string            `json:"host"`
	Hosts              []string          `json:"hosts"`               // instead of host: tried one after the other
	Port               int               `json:"port"`                // of hosts without a port; 0: 7890
	Version            string            `json:"version"`             // 2.0 (default) or 3.0
	SourceAddr         string            `json:"source_addr"`         // the identifier of the service provider
	SharedSecret       string            `json:"shared_secret"`       //
	AllowUnproven      bool              `json:"allow_unproven"`      // accept a gateway that does not prove that it knows the secret
	Binds              int               `json:"binds"`               // links; 0: 1
	Window             int               `json:"window"`              // messages without an answer on each link; 0: 16
	PerSecond          float64           `json:"per_second"`          // messages on all links together; 0: no limit
	ActiveTestSeconds  float64           `json:"active_test_seconds"` // 0: 30
	ResponseSeconds    float64           `json:"response_seconds"`    // 0: 10
	ServiceID          string            `json:"service_id"`          //
	SrcID              string            `json:"src_id"`              // the number that people see
	Extensions         map[string]string `json:"extensions"`          // digits after src_id, by company
	CountryCode        bool              `json:"country_code"`        // Chinese recipients are sent with 86
	MsgFmt             string            `json:"msg_fmt"`             // a key of formats; empty: ascii_ucs2
	LongMessages       string            `json:"long_messages"`       // a key of headers; empty: udh8
	RegisteredDelivery *uint8            `json:"registered_delivery"` // null: 1
	FeeUserType        *uint8            `json:"fee_user_type"`       // null: 2
	FeeTerminalID      string            `json:"fee_terminal_id"`     //
	FeeType            string            `json:"fee_type"`            // empty: 01
	FeeCode            string            `json:"fee_code"`            // empty: 000000
	Statuses           map[string]string `json:"statuses"`            // judgements by result; the others are judged by cmppJudgements
}

// These are the defaults of a CMPPConfig.
const (
	cmppPort          = "7890"
	defaultCMPPWindow = 16
	feeOfProvider     = 2
	feeFree           = "01"
	noFee             = "000000"
)

var versions = map[string]cmpp.Version{"2.0": cmpp.V20, "3.0": cmpp.V30}

// formats contains the formats of texts, by their names in CMPPConfig.MsgFmt. The first one with all characters of a text is used.
var formats = map[string][]cmpp.Format{
	"ascii_ucs2": {cmpp.FormatASCII, cmpp.FormatUCS2}, "ascii_gbk": {cmpp.FormatASCII, cmpp.FormatGBK, cmpp.FormatUCS2},
	"gbk": {cmpp.FormatGBK, cmpp.FormatUCS2}, "ucs2": {cmpp.FormatUCS2},
}

var headers = map[string]cmpp.Header{"udh8": cmpp.Header8, "udh16": cmpp.Header16}

// These are the greatest lengths of fields in octets.
const (
	maxServiceID, maxFeeTerminalID, maxFeeType, maxFeeCode, maxSrcID = 10, 21, 2, 6, 21
	maxSourceAddr, maxSharedSecret                                   = 6, 255
)

// readCMPP checks a configuration, sets its defaults, and returns the protocol with these settings. A fault names the wrong field.
func readCMPP(config CMPPConfig) (*cmppProtocol, error) {
	p := &cmppProtocol{config: config}
	for _, check := range []func() error{p.readSettings, p.readChoices, p.readMessages, p.readExtensions} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	var err error
	p.judged, err = readStatuses(cmppJudgements, config.Statuses, func(string) (cmpp.Result, bool) { return 0, false })
	return p, err
}

func (p *cmppProtocol) readSettings() (err error) {
	c := p.config
	p.settings, err = readNumbers(c.Binds, c.Window, defaultCMPPWindow, c.PerSecond,
		number{name: "active_test_seconds", value: c.ActiveTestSeconds}, number{name: "response_seconds", value: c.ResponseSeconds})
	if err != nil {
		return err
	}
	p.settings.hosts, err = readHosts(c.Host, c.Hosts, c.Port, cmppPort)
	return err
}

func (p *cmppProtocol) readChoices() error {
	return readChoices([]choice{
		{"version", &p.config.Version, "2.0", slices.Sorted(maps.Keys(versions))},
		{"msg_fmt", &p.config.MsgFmt, "ascii_ucs2", slices.Sorted(maps.Keys(formats))},
		{"long_messages", &p.config.LongMessages, "udh8", slices.Sorted(maps.Keys(headers))},
	})
}

func (p *cmppProtocol) readMessages() error {
	c := p.config
	if err := readTexts([]text{
		{"source_addr", c.SourceAddr, maxSourceAddr}, {"shared_secret", c.SharedSecret, maxSharedSecret}, {"service_id", c.ServiceID, maxServiceID},
		{"src_id", c.SrcID, maxSrcID}, {"fee_terminal_id", c.FeeTerminalID, maxFeeTerminalID}, {"fee_type", c.FeeType, maxFeeType},
		{"fee_code", c.FeeCode, maxFeeCode},
	}); err != nil {
		return err
	}
	switch {
	case c.SourceAddr == "":
		return invalid("source_addr", fault.Required, nil)
	case c.SharedSecret == "":
		return invalid("shared_secret", fault.Required, nil)
	}
	p.submit = cmpp.Submit{
		RegisteredDelivery: optional.Or(c.RegisteredDelivery, 1), ServiceID: c.ServiceID, Source: c.SourceAddr,
		FeeUserType: optional.Or(c.FeeUserType, feeOfProvider), FeeTerminalID: c.FeeTerminalID, FeeType: cmp.Or(c.FeeType, feeFree), FeeCode: cmp.Or(c.FeeCode, noFee),
	}
	return nil
}

// readExtensions checks that each extension belongs to one company, and fits behind src_id.
func (p *cmppProtocol) readExtensions() error {
	seen := map[string]bool{}
	for _, company := range slices.Sorted(maps.Keys(p.config.Extensions)) {
		field, digits := "extensions."+company, p.config.Extensions[company]
		switch {
		case digits == "" || !characters.IsDigits(digits):
			return invalid(field, fault.WrongFormat, nil)
		case len(p.config.SrcID)+len(digits) > maxSrcID:
			return invalid(field, fault.TooLong, max(0, maxSrcID-len(p.config.SrcID)))
		case seen[digits]:
			return invalid(field, fault.Duplicate, nil)
		case strings.ContainsRune(company, 0):
			return invalid("extensions", fault.BadCharacters, nil)
		}
		seen[digits] = true
	}
	return nil
}
