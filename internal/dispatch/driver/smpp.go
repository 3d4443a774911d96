package driver

import (
	"lksms/internal/dispatch/driver/carrier"
	"lksms/internal/dispatch/driver/provider"
)

func newSMPP(config []byte, t provider.Tools) (Driver, error) {
	var c carrier.SMPPConfig
	if err := read(config, &c); err != nil {
		return nil, err
	}
	return carrier.NewSMPP(c, t)
}
